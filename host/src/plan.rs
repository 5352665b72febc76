//! Which kernel runs, and with what grid. All thresholds stand here.

use std::fmt;
use std::sync::LazyLock;

use cuda_std::emulator::Kernel;
use kernels_gpu::entries::REGISTRY;
use kernels_gpu::reduce::{MAX_WARPS, WARP};
use kernels_gpu::tile::CHUNK;
use kernels_gpu::{block, stream};

use crate::problem::MAX_COLS;
use crate::{DType, DeviceProperties, Error, Problem};

/// A way of covering a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// A group of up to 32 lanes a row, the row in registers.
    Warp,
    /// A block a row, the row in registers.
    Block,
    /// A block a row, which it reads twice.
    Stream,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warp => "warp",
            Self::Block => "block",
            Self::Stream => "stream",
        })
    }
}

/// A way, with what its kernel was compiled for.
#[derive(Clone, Copy)]
enum Cover {
    /// `lanes` lanes a row, `steps` vectors of 16 bytes a lane.
    Warp {
        lanes: u32,
        steps: u32,
    },
    Block,
    Stream,
}

/// A line of the table.
struct Choice {
    /// Longest row that is covered like this, unless an earlier line takes it.
    longest: u32,
    cover: Cover,
}

const fn warp(longest: u32, lanes: u32, steps: u32) -> Choice {
    let cover = Cover::Warp { lanes, steps };
    Choice { longest, cover }
}

const fn block(longest: u32) -> Choice {
    let cover = Cover::Block;
    Choice { longest, cover }
}

const STREAM: Choice = Choice {
    longest: MAX_COLS as u32,
    cover: Cover::Stream,
};

/// f32 inputs, shortest rows first.
///
/// Evidence is a kernel's bandwidth as a fraction of a copy's, on an H200, with 2^29 elements. It was
/// measured on prototypes of the same shape.
static F32: &[Choice] = &[
    // Not yet measured.
    warp(4, 1, 1),
    // Not yet measured.
    warp(8, 1, 2),
    // Not yet measured.
    warp(16, 2, 2),
    // 0.995 at 32 columns; 8 lanes with one vector each 1.005 to 1.007, four vectors a lane 0.975.
    warp(32, 4, 2),
    // Not yet measured.
    warp(64, 8, 2),
    // Not yet measured.
    warp(128, 16, 2),
    // 0.996 at 256 columns with 64 threads a block; two rows a warp 0.978 to 0.988.
    warp(256, 32, 2),
    // Not yet measured.
    warp(512, 32, 4),
    // 0.990 at 1,024 columns. A block of 128 threads a row reached 0.999: not taken, since each of its
    // warps sums a part of what is one chunk everywhere else, which gives other bits.
    warp(1024, 32, 8),
    // 0.974 to 0.978 at 2,048 columns, 0.969 at 4,096 and at 32,768.
    block(32_768),
    // Not yet measured.
    STREAM,
];

/// f16 and bf16 inputs, shortest rows first. Evidence as for f32, with 2^30 elements of bf16.
static SIXTEEN_BITS: &[Choice] = &[
    // Not yet measured.
    warp(8, 1, 1),
    // Not yet measured.
    warp(16, 1, 2),
    // 0.995 at 32 columns; 4 lanes with one vector each 1.005 to 1.007, four vectors a lane 0.975.
    warp(32, 2, 2),
    // Not yet measured.
    warp(64, 4, 2),
    // Not yet measured.
    warp(128, 8, 2),
    // Not yet measured.
    warp(256, 16, 2),
    // Not yet measured.
    warp(512, 32, 2),
    // 1.000 at 1,024 columns.
    warp(1024, 32, 4),
    // 0.997 to 1.002 at 2,048 columns, 0.973 at 4,096.
    block(32_768),
    // Not yet measured.
    STREAM,
];

fn choices(input: DType) -> &'static [Choice] {
    match input {
        DType::F32 => F32,
        DType::F16 | DType::BF16 => SIXTEEN_BITS,
    }
}

impl Cover {
    fn way(self) -> Way {
        match self {
            Self::Warp { .. } => Way::Warp,
            Self::Block => Way::Block,
            Self::Stream => Way::Stream,
        }
    }

    /// Longest row that the kernel can hold.
    fn capacity(self, input: DType) -> u32 {
        match self {
            Self::Warp { lanes, steps } => lanes * steps * input.vector_elems(),
            Self::Block => MAX_WARPS * CHUNK,
            Self::Stream => MAX_COLS as u32,
        }
    }

    fn entry(self, input: DType, output: DType) -> String {
        match self {
            Self::Warp { lanes, steps } => format!("softmax_warp_{lanes}x{steps}_{input}_{output}"),
            Self::Block => format!("softmax_block_{input}_{output}"),
            Self::Stream => format!("softmax_stream_{input}_{output}"),
        }
    }

    /// Warps of the block that has a row of `cols` elements, or several rows.
    fn warps(self, kernel: KernelId, cols: u32) -> u32 {
        match self {
            Self::Warp { .. } => kernel.describe().max_threads / WARP,
            Self::Block => cols.div_ceil(CHUNK).max(1),
            Self::Stream => stream::BLOCK_THREADS / WARP,
        }
    }

    fn elems_per_thread(self, input: DType) -> u32 {
        match self {
            Self::Warp { steps, .. } => steps * input.vector_elems(),
            Self::Block | Self::Stream => CHUNK / WARP,
        }
    }

    fn rows_per_block(self, warps: u32) -> u32 {
        match self {
            Self::Warp { lanes, .. } => warps * WARP / lanes,
            Self::Block | Self::Stream => 1,
        }
    }

    fn shared_bytes(self, warps: u32) -> u32 {
        match self {
            Self::Warp { .. } => 0,
            Self::Block => block::shared_bytes(warps),
            Self::Stream => stream::SHARED_BYTES,
        }
    }
}

/// A kernel, by its place in the registry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelId(u16);

impl KernelId {
    /// How many kernels there are.
    pub(crate) fn count() -> usize {
        REGISTRY.len()
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    pub(crate) fn describe(self) -> &'static Kernel {
        &REGISTRY[self.index()]
    }
}

impl fmt::Debug for KernelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe().name)
    }
}

/// The kernel of each choice, by input and output type; names are compared once, not at each
/// launch.
static KERNELS: LazyLock<[[Vec<Option<KernelId>>; 3]; 3]> = LazyLock::new(|| {
    DType::ALL.map(|input| {
        DType::ALL.map(|output| {
            let entries = choices(input)
                .iter()
                .map(|choice| choice.cover.entry(input, output));
            let index = |entry: String| REGISTRY.iter().position(|kernel| kernel.name == entry);
            entries
                .map(|entry| index(entry).map(|index| KernelId(index as u16)))
                .collect()
        })
    })
});

/// What a call will launch: kernel, grid, shared memory.
///
/// A function of the problem, the device's properties and the way that was forced, if any; made
/// without a GPU. [`Display`](fmt::Display) says all of it in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    kernel: KernelId,
    way: Way,
    threads_per_block: u32,
    elems_per_thread: u32,
    rows_per_block: u32,
    shared_bytes: u32,
    grid: u32,
    launches: u64,
}

impl Plan {
    /// Chooses a way for `problem`, or takes the forced one.
    ///
    /// # Errors
    ///
    /// [`Error::WayNotPossible`] where the forced way cannot hold the row, or the device cannot run
    /// it.
    pub fn new(
        problem: &Problem,
        properties: &DeviceProperties,
        forced: Option<Way>,
    ) -> Result<Self, Error> {
        let cols = problem.cols() as u32;
        let (input, output) = (problem.input(), problem.output());
        let kernels = &KERNELS[input as usize][output as usize];
        let mut limit = 0;
        for (choice, kernel) in choices(input).iter().zip(kernels) {
            let cover = choice.cover;
            let longest = match forced {
                Some(way) if way != cover.way() => continue,
                Some(_) => cover.capacity(input),
                None => choice.longest,
            };
            let Some(kernel) = *kernel else { continue };
            let warps = cover.warps(kernel, cols.min(longest));
            let shared_bytes = cover.shared_bytes(warps);
            if shared_bytes > properties.max_shared_bytes_per_block {
                continue;
            }
            limit = limit.max(longest);
            if cols > longest {
                continue;
            }
            let rows_per_block = cover.rows_per_block(warps);
            let launches = problem.parts();
            // The first part is the largest.
            let grid = if launches == 0 {
                0
            } else {
                problem.part(0).rows.div_ceil(rows_per_block)
            };
            return Ok(Self {
                kernel,
                way: cover.way(),
                threads_per_block: warps * WARP,
                elems_per_thread: cover.elems_per_thread(input),
                rows_per_block,
                shared_bytes,
                grid,
                launches,
            });
        }
        Err(Error::WayNotPossible {
            // The last line of either table is the one that takes any row on any device.
            way: forced.unwrap_or(Way::Stream),
            cols: problem.cols(),
            limit: limit as usize,
        })
    }

    /// How a row is covered.
    pub fn way(&self) -> Way {
        self.way
    }

    /// The kernel's entry point.
    pub fn kernel_name(&self) -> &'static str {
        self.kernel.describe().name
    }

    /// Threads of a block.
    pub fn threads_per_block(&self) -> u32 {
        self.threads_per_block
    }

    /// Elements that a thread holds at once.
    pub fn elems_per_thread(&self) -> u32 {
        self.elems_per_thread
    }

    /// Rows that a block covers.
    pub fn rows_per_block(&self) -> u32 {
        self.rows_per_block
    }

    /// Dynamic shared memory of a block, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// Blocks of the largest launch; 0 if there is nothing to launch.
    pub fn grid(&self) -> u32 {
        self.grid
    }

    /// Number of launches: 1, except for no elements, more than 2^31 rows, or more than four
    /// leading dimensions that cannot be walked as fewer.
    pub fn launches(&self) -> u64 {
        self.launches
    }

    pub(crate) fn kernel(&self) -> KernelId {
        self.kernel
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.launches == 1 { "" } else { "es" };
        write!(
            f,
            "{}: {}, {} launch{plural} of up to {} blocks, {} threads a block, {} elements a thread, \
             {} rows a block, {} bytes of shared memory a block",
            self.way,
            self.kernel_name(),
            self.launches,
            self.grid,
            self.threads_per_block,
            self.elems_per_thread,
            self.rows_per_block,
            self.shared_bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every device that the kernels run on has at least.
    fn small() -> DeviceProperties {
        DeviceProperties {
            compute_capability: Some((8, 0)),
            multiprocessors: 1,
            max_shared_bytes_per_block: 48 * 1024,
            has_clusters: false,
            l2_bytes: 0,
        }
    }

    fn pairs() -> impl Iterator<Item = (DType, DType)> {
        let all = DType::ALL
            .into_iter()
            .flat_map(|input| DType::ALL.map(|output| (input, output)));
        all.filter(|&(input, output)| Problem::packed(&[1], input, output).is_ok())
    }

    fn plan(
        cols: usize,
        (input, output): (DType, DType),
        forced: Option<Way>,
    ) -> Result<Plan, Error> {
        Plan::new(
            &Problem::packed(&[7, cols], input, output)?,
            &small(),
            forced,
        )
    }

    /// Elements that the plan's kernel can hold, by what its name says.
    fn capacity(plan: &Plan, input: DType) -> usize {
        let name = plan.kernel_name();
        let threads = plan.threads_per_block() as usize;
        match plan.way() {
            Way::Warp => {
                let shape = name.split('_').nth(2).unwrap();
                let (lanes, steps) = shape.split_once('x').unwrap();
                let lanes: usize = lanes.parse().unwrap();
                let steps: usize = steps.parse().unwrap();
                assert_eq!(plan.rows_per_block() as usize, threads / lanes);
                lanes * steps * 16 / input.size_bytes()
            }
            Way::Block => threads * 32,
            Way::Stream => usize::MAX,
        }
    }

    #[test]
    fn every_length_gets_a_kernel_that_holds_it() {
        for types in pairs() {
            let (input, output) = types;
            let ways = [None, Some(Way::Warp), Some(Way::Block), Some(Way::Stream)];
            for (cols, forced) in (0..=70_000).flat_map(|cols| ways.map(|way| (cols, way))) {
                let plan = match plan(cols, types, forced) {
                    Ok(plan) => plan,
                    Err(Error::WayNotPossible {
                        way,
                        cols: given,
                        limit,
                    }) => {
                        assert_eq!((Some(way), given), (forced, cols));
                        let expected = if way == Way::Warp { 1024 } else { 32_768 };
                        assert!(
                            limit == expected && cols > limit,
                            "{way} at {cols}: {limit}"
                        );
                        continue;
                    }
                    Err(error) => panic!("{cols}: {error}"),
                };
                let kernel = plan.kernel().describe();
                assert!(kernel.name.starts_with(&format!("softmax_{}_", plan.way())));
                assert!(
                    kernel.name.ends_with(&format!("_{input}_{output}")),
                    "{}",
                    kernel.name
                );
                assert!(capacity(&plan, input) >= cols, "{cols}: {plan}");
                assert!(
                    plan.threads_per_block() <= kernel.max_threads,
                    "{cols}: {plan}"
                );
                assert!(plan.threads_per_block() > 0 && plan.threads_per_block() % WARP == 0);
                assert_eq!(forced.unwrap_or(plan.way()), plan.way());
                let rows: u32 = if cols == 0 { 0 } else { 7 };
                assert_eq!(
                    plan.grid(),
                    rows.div_ceil(plan.rows_per_block()),
                    "{cols}: {plan}"
                );
            }
        }
    }

    #[test]
    fn ways_change_at_their_thresholds() {
        for types in pairs() {
            let way = |cols| plan(cols, types, None).unwrap().way();
            assert_eq!((way(1), way(1024)), (Way::Warp, Way::Warp));
            assert_eq!((way(1025), way(32_768)), (Way::Block, Way::Block));
            assert_eq!((way(32_769), way(MAX_COLS)), (Way::Stream, Way::Stream));
        }
        // Within a way, the smallest kernel that holds the row.
        for (choices, types) in [
            (F32, (DType::F32, DType::F32)),
            (SIXTEEN_BITS, (DType::BF16, DType::F32)),
        ] {
            for pair in choices.windows(2) {
                let [shorter, longer] = pair else {
                    unreachable!()
                };
                assert!(shorter.longest < longer.longest);
                let name = |cols: u32| plan(cols as usize, types, None).unwrap().kernel_name();
                assert_eq!(name(shorter.longest), shorter.cover.entry(types.0, types.1));
                assert_eq!(
                    name(shorter.longest + 1),
                    longer.cover.entry(types.0, types.1)
                );
            }
        }
    }

    #[test]
    fn every_kernel_is_in_the_table() {
        for (input, output) in pairs() {
            let of_pair = format!("_{input}_{output}");
            let compiled = REGISTRY
                .iter()
                .filter(|kernel| kernel.name.ends_with(&of_pair))
                .count();
            let chosen = KERNELS[input as usize][output as usize]
                .iter()
                .flatten()
                .count();
            assert_eq!(compiled, chosen, "{input} to {output}");
            assert_eq!(chosen, choices(input).len(), "{input} to {output}");
        }
    }

    #[test]
    fn a_device_with_less_shared_memory_gets_less() {
        let problem = Problem::packed(&[7, 4096], DType::F32, DType::F32).unwrap();
        let properties = |max_shared_bytes_per_block| DeviceProperties {
            max_shared_bytes_per_block,
            ..small()
        };
        let needed = block::shared_bytes(4);
        let way = |bytes| Plan::new(&problem, &properties(bytes), Some(Way::Block));
        assert!(way(needed).is_ok());
        assert!(matches!(
            way(needed - 1),
            Err(Error::WayNotPossible { limit: 0, .. })
        ));
    }

    #[test]
    fn plans_say_what_they_are() {
        let plan = plan(1025, (DType::F16, DType::F32), None).unwrap();
        assert_eq!(
            plan.to_string(),
            "block: softmax_block_f16_f32, 1 launch of up to 7 blocks, 64 threads a block, \
             32 elements a thread, 1 rows a block, 32 bytes of shared memory a block"
        );
    }
}
