//! Times on a GPU, by events on its stream.

use warp_softmax::bench_support::{Event, Graph};
use warp_softmax::{Device, Error};

/// Launches or replays before the first that is timed.
const WARM_UPS: usize = 3;

/// Microseconds of each of `samples` launches. They follow one another without a wait, so that the
/// stream never runs dry.
pub fn time_each(
    device: &Device,
    samples: usize,
    mut launch: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<f64>, Error> {
    for _ in 0..WARM_UPS {
        launch()?;
    }
    let mut events = Vec::with_capacity(samples);
    for _ in 0..samples {
        let start = Event::record(device)?;
        launch()?;
        events.push((start, Event::record(device)?));
    }
    let time = |(start, end): &(Event, Event)| Ok(f64::from(end.milliseconds_since(start)?) * 1e3);
    events.iter().map(time).collect()
}

/// Microseconds a launch, in each of `samples` replays of a graph of `launches`.
pub fn time_graph(
    device: &Device,
    samples: usize,
    launches: usize,
    mut launch: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<f64>, Error> {
    // SAFETY: the graph is gone when this returns, and until then `launch` borrows the tensors.
    let graph = unsafe { Graph::capture(device, || (0..launches).try_for_each(|_| launch()))? };
    let replays = time_each(device, samples, || graph.launch())?;
    Ok(replays.iter().map(|us| us / launches as f64).collect())
}
