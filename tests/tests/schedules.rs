//! Results do not depend on the order in which a GPU happens to run blocks, warps and lanes.

use cuda_std::emulator::{Checks, checked};
use warp_softmax_tests::property::property;
use warp_softmax_tests::runner::Runner;
use warp_softmax_tests::strategy;

#[test]
fn drawn_calls_in_the_drawn_order_and_in_ascending_order() {
    let runner = Runner::new("drawn calls in two orders");
    property("schedules", strategy::case(), |case| {
        // A property runs in an order of its own.
        assert!(Checks::current().seed.is_some());
        let drawn = runner.try_check(&case)?;
        let ascending = checked(Checks::default(), || runner.try_check(&case))?;
        if drawn == ascending {
            Ok(())
        } else {
            Err(format!("other bits than in ascending order; {case:?}"))
        }
    });
    runner.finish();
}
