//! Which kernel runs, and with what grid. All thresholds stand here.

use std::fmt;
use std::sync::LazyLock;

use cuda_std::emulator::Kernel;
use kernels_gpu::entries::REGISTRY;
use kernels_gpu::exchange::{Alone, Block, BlockInTurns, Cluster, Exchange};
use kernels_gpu::reduce::{MAX_WARPS, WARP};
use kernels_gpu::spread::{QUARTERS, Quarters};
use kernels_gpu::tile::CHUNK;
use kernels_gpu::{attention, chunked, packed, stream};

use crate::problem::MAX_COLS;
use crate::{DType, DeviceProperties, Error, Problem};

/// A way of covering a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// A group of up to 32 lanes a row, the row in registers.
    Warp,
    /// As `Warp`, through shared memory: adjacent rows, as many at once as a warp has groups of lanes.
    Packed,
    /// A block a row, the row in registers; of the plain softmax, for aligned rows. Of masked rows a block may take several, one
    /// after the other.
    Block,
    /// As `Block`, each chunk of the row by four warps; for aligned rows.
    Spread,
    /// A block a row, the row in shared memory as it is; for aligned rows.
    Parked,
    /// A block a row, the row shifted on its way through shared memory and held there or in registers.
    Staged,
    /// A cluster of blocks a row, the row in registers; of the plain softmax, for aligned rows.
    Split,
    /// As `Spread`, with a cluster of blocks a row.
    SplitSpread,
    /// A cluster of blocks a row, the row in shared memory as it is; for aligned rows.
    SplitParked,
    /// As `Staged`, with a cluster of blocks a row.
    SplitStaged,
    /// A block a row, which it reads twice.
    Stream,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Warp,
        Self::Packed,
        Self::Block,
        Self::Spread,
        Self::Parked,
        Self::Staged,
        Self::Split,
        Self::SplitSpread,
        Self::SplitParked,
        Self::SplitStaged,
        Self::Stream,
    ];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warp => "warp",
            Self::Packed => "packed",
            Self::Block => "block",
            Self::Spread => "spread",
            Self::Parked => "parked",
            Self::Staged => "staged",
            Self::Split => "split",
            Self::SplitSpread => "split_spread",
            Self::SplitParked => "split_parked",
            Self::SplitStaged => "split_staged",
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
    /// The same, of rows without gaps between them.
    Packed {
        lanes: u32,
        steps: u32,
    },
    Block,
    Spread,
    Parked(Exp),
    /// With at least so many chunks a warp.
    Staged(Exp, u32),
    Split(Exp),
    SplitSpread(Exp),
    SplitParked(Exp),
    SplitStaged(Exp),
    Stream,
}

/// What exponentials are made of.
#[derive(Clone, Copy, PartialEq)]
enum Exp {
    /// IEEE arithmetic: the same bits everywhere.
    Ieee,
    /// The GPU's own exponential, for 16-bit inputs and outputs: not where the result has to be the
    /// same everywhere.
    Fast,
}

impl Exp {
    /// What a row's exponentials are made of, where its bits may be the device's.
    fn of(problem: &Problem, properties: &DeviceProperties) -> Self {
        let cols = problem.cols() as u32;
        let is_16_bit = problem.input() == problem.output() && problem.input() != DType::F32;
        // Longest row that the device can cover with them, aligned or not.
        let longest = match properties.max_cluster_blocks {
            1 if properties.max_shared_bytes_per_block
                < chunked::shared_bytes(
                    <Block>::bytes(MAX_WARPS),
                    chunked::stages_bytes(MAX_WARPS, 1, 32_768, 2, 2),
                ) =>
            {
                0
            }
            1 => 32_768,
            blocks => LONGEST_SPLIT.min(blocks * MAX_SPLIT_WARPS * CHUNK),
        };
        if is_16_bit && cols > LONGEST_IEEE && cols <= longest {
            Self::Fast
        } else {
            Self::Ieee
        }
    }
}

/// The rows that a line of the table is for.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    /// Each begins at 16 bytes and is whole vectors; results of vectors that take less may begin at a multiple of that.
    Aligned,
    /// The same, and so few that a row should have many blocks.
    AlignedFew,
    /// The same, and so few that they have at most so many chunks for each multiprocessor.
    AlignedChunks(u32),
    /// Whatever their alignment.
    Any,
}

/// A line of the table.
struct Choice {
    /// Longest row that is covered like this, unless an earlier line takes it.
    longest: u32,
    rows: Rows,
    cover: Cover,
}

const fn line(longest: u32, rows: Rows, cover: Cover) -> Choice {
    Choice {
        longest,
        rows,
        cover,
    }
}

const fn warp(longest: u32, lanes: u32, steps: u32) -> Choice {
    line(longest, Rows::Aligned, Cover::Warp { lanes, steps })
}

/// For rows that are not aligned, an element at a time.
const fn warp_any(longest: u32, lanes: u32, steps: u32) -> Choice {
    line(longest, Rows::Any, Cover::Warp { lanes, steps })
}

const fn packed(longest: u32, lanes: u32, steps: u32) -> Choice {
    line(longest, Rows::Any, Cover::Packed { lanes, steps })
}

/// What takes any row that no earlier line does.
const STREAM: Choice = line(MAX_COLS as u32, Rows::Any, Cover::Stream);

/// Shortest row that few rows are split for.
const SHORTEST_SPLIT: usize = 4096;

/// Most warps of a block of a split row.
const MAX_SPLIT_WARPS: u32 = 16;
/// Most warps of a block that stages a row and holds it in registers.
const MAX_STAGED_WARPS: u32 = 24;
/// Longest 16-bit row that never has fast exponentials.
const LONGEST_IEEE: u32 = 4096;
/// Most blocks of a launch.
const MAX_GRID: u32 = i32::MAX as u32;
/// Longest row that a cluster of any device covers.
const LONGEST_SPLIT: u32 = 16 * MAX_SPLIT_WARPS * CHUNK;

/// f32 inputs. The first line that takes a row has it.
///
/// Evidence is a kernel's bandwidth as a fraction of a copy's in the same run, on an H200, with 2^29
/// elements, 2026-11-30.
static F32: &[Choice] = &[
    // Not yet measured.
    warp(4, 1, 1),
    // Not yet measured.
    warp(8, 1, 2),
    // Not yet measured.
    warp(16, 2, 2),
    // 0.998 at 32 columns; 8 lanes with one vector each 0.814.
    warp(32, 4, 2),
    // 0.993 at 64 columns; 16 lanes with one vector each 0.781.
    warp(64, 8, 2),
    // 0.999 at 128 columns; 32 lanes with one vector each 0.769.
    warp(128, 16, 2),
    // 1.000 at 256 columns.
    warp(256, 32, 2),
    // Times are of one launch in a CUDA graph, 2026-12-01. 1x512: 1.35 us, as `warp` 1.59; 64x512: 1.54, 1.69.
    line(512, Rows::AlignedChunks(2), Cover::Spread),
    // 1.000 at 512 columns.
    warp(512, 32, 4),
    // 1x1024: 1.36 us, as `warp` 1.95; 512x1024: 2.32, 2.60.
    line(1024, Rows::AlignedChunks(4), Cover::Spread),
    // 1x2048: 1.70 us, as `spread` 1.77. 1x4096: 2.01, as `split` 2.45; 64x4096: 2.30, 2.72. 1x32768: 2.38, 2.80; 16x32768:
    // 3.38, 3.51, but 32x32768: 5.09, 4.89.
    line(
        32_768,
        Rows::AlignedChunks(4),
        Cover::SplitSpread(Exp::Ieee),
    ),
    // On devices without clusters. Not yet measured there; on one that has them 1x2048: 1.77 us, as `block` 2.05, but
    // 1x4096: 2.30, 2.25.
    line(2048, Rows::AlignedChunks(4), Cover::Spread),
    // 1x65536: 3.2 us, as `split_spread` 3.4; 1x128256: 4.2, 4.9.
    line(LONGEST_SPLIT, Rows::AlignedFew, Cover::Split(Exp::Ieee)),
    // 0.993 at 1,000 columns, 0.999 at 1,024, with a warp a block; with two 0.980.
    warp(1024, 32, 8),
    // 0.816 at 9 columns; `packed` with five vectors a lane 0.663.
    warp_any(4, 1, 1),
    warp_any(8, 1, 2),
    warp_any(16, 2, 2),
    // 0.992 at 33 columns; `warp` 0.718.
    packed(36, 1, 9),
    // 0.952 at 50 columns.
    packed(64, 1, 16),
    // 0.989 at 127 columns.
    packed(128, 4, 8),
    // 0.987 at 255 columns; 32 lanes with four vectors each 0.625.
    packed(256, 8, 8),
    // 0.986 at 501 columns.
    packed(512, 16, 8),
    // With gaps between the rows. Not yet measured; without gaps 0.718 at 33 columns.
    warp_any(32, 4, 2),
    warp_any(64, 8, 2),
    warp_any(128, 16, 2),
    warp_any(256, 32, 2),
    // 0.985 at 1,001 columns.
    line(1024, Rows::Any, Cover::Staged(Exp::Ieee, 1)),
    // 0.991 at 2,048 columns; `block` 0.967.
    line(2048, Rows::Any, Cover::Staged(Exp::Ieee, 2)),
    // 0.975 at 4,096 columns, 0.978 at 8,192; `block` 0.968, 0.967.
    line(16_384, Rows::Aligned, Cover::Parked(Exp::Ieee)),
    // 0.986 at 3,001 columns, 0.980 at 4,096; with two chunks a warp 0.891, 0.969.
    line(4096, Rows::Any, Cover::Staged(Exp::Ieee, 1)),
    // 0.994 at 5,001 columns, 0.972 at 10,001, 0.981 at 20,001; with one chunk a warp 0.833 at 5,001.
    line(24_576, Rows::Any, Cover::Staged(Exp::Ieee, 2)),
    // 0.982 at 32,768 columns; `block` 0.981, `staged` 0.872.
    line(32_768, Rows::Aligned, Cover::SplitParked(Exp::Ieee)),
    // 0.986 at 65,536 columns; `split_parked` 0.981.
    line(65_536, Rows::Aligned, Cover::Split(Exp::Ieee)),
    // 0.974 at 128,256 columns, 0.948 at 262,144; `split` 0.927 at 128,256.
    line(LONGEST_SPLIT, Rows::Aligned, Cover::SplitParked(Exp::Ieee)),
    // 0.974 at 50,257 columns, 0.930 at 65,537, 0.961 at 128,257, 0.846 at 200,001; `stream` 0.380 at 50,257.
    line(LONGEST_SPLIT, Rows::Any, Cover::SplitStaged(Exp::Ieee)),
    // On devices without clusters. Not yet measured there.
    line(32_768, Rows::Aligned, Cover::Block),
    line(49_152, Rows::Aligned, Cover::Parked(Exp::Ieee)),
    line(32_768, Rows::Any, Cover::Staged(Exp::Ieee, 1)),
    STREAM,
];

/// f16 and bf16 inputs. Evidence as for f32, with 2^30 elements of bf16.
static SIXTEEN_BITS: &[Choice] = &[
    // Not yet measured.
    warp(8, 1, 1),
    // Not yet measured.
    warp(16, 1, 2),
    // 1.009 at 32 columns; 4 lanes with one vector each 0.733.
    warp(32, 2, 2),
    // 1.009 at 64 columns.
    warp(64, 4, 2),
    // 0.998 at 128 columns.
    warp(128, 8, 2),
    // 1.003 at 256 columns.
    warp(256, 16, 2),
    // 1x512: 1.44 us, as `warp` 1.47; 64x512: 1.56, 1.65, but 512x512: 1.87, 1.76.
    line(512, Rows::AlignedChunks(2), Cover::Spread),
    // 1.004 at 512 columns.
    warp(512, 32, 2),
    // 1x1024: 1.47 us, as `warp` 1.67; 512x1024: 2.00, 2.08. 64x2048: 1.82, as `split_spread` 1.93, as `block` 2.13.
    line(2048, Rows::AlignedChunks(4), Cover::Spread),
    // 1x4096: 1.97 us, as `split` 2.08; 64x4096: 2.18, 2.24. 1x16384: 2.10, 2.20. 8x32768: 2.64, 2.58; 64x8192: 2.82, 2.51.
    line(
        16_384,
        Rows::AlignedChunks(2),
        Cover::SplitSpread(Exp::Fast),
    ),
    line(
        16_384,
        Rows::AlignedChunks(2),
        Cover::SplitSpread(Exp::Ieee),
    ),
    line(LONGEST_SPLIT, Rows::AlignedFew, Cover::Split(Exp::Fast)),
    line(LONGEST_SPLIT, Rows::AlignedFew, Cover::Split(Exp::Ieee)),
    // 0.989 at 1,000 columns, 0.999 at 1,024.
    warp(1024, 32, 4),
    // 0.996 at 2,048 columns, 0.983 at 4,096. Longer, where bits matter: 0.963 at 8,192, 0.899 at 16,384.
    line(16_384, Rows::Aligned, Cover::Block),
    // 0.980 at 8,192 columns in 48 registers, 0.951 in 64; with two chunks a warp 0.964.
    line(8192, Rows::Aligned, Cover::Parked(Exp::Fast)),
    // 0.976 at 16,384 columns, where `parked` has 0.971; 0.980 at 32,768, 0.987 at 65,536, 0.986 at 128,256, 0.975 at
    // 262,144.
    line(LONGEST_SPLIT, Rows::Aligned, Cover::SplitParked(Exp::Fast)),
    // On devices without clusters. Not yet measured there.
    line(32_768, Rows::Aligned, Cover::Parked(Exp::Fast)),
    // 0.840 at 32,768 columns, 0.794 at 65,536, 0.712 at 128,256; `split_parked` 0.623 at 65,536, `parked`
    // 0.712 at 16,384.
    line(LONGEST_SPLIT, Rows::Aligned, Cover::Split(Exp::Ieee)),
    line(LONGEST_SPLIT, Rows::Aligned, Cover::SplitParked(Exp::Ieee)),
    line(32_768, Rows::Aligned, Cover::Parked(Exp::Ieee)),
    // 0.533 at 9 columns; `warp` 0.390.
    packed(8, 1, 1),
    packed(16, 1, 2),
    // 0.872 at 17 columns, 0.970 at 31, 0.987 at 33, 0.966 at 50; with five vectors a lane that need not be whole 0.818 at
    // 33.
    packed(24, 1, 3),
    packed(32, 1, 4),
    packed(40, 1, 5),
    packed(48, 1, 6),
    packed(56, 1, 7),
    packed(64, 1, 8),
    // 0.961 at 127 columns; an earlier form 0.532 at 65, 0.923 at 127.
    packed(128, 4, 4),
    // 0.928 at 255 columns.
    packed(256, 8, 4),
    // 0.915 at 501 columns; 32 lanes with two vectors each 0.726.
    packed(512, 16, 4),
    // 0.980 at 1,001 columns; `staged` 0.848.
    packed(1024, 32, 4),
    // With gaps between the rows. Not yet measured; without gaps 0.525 at 33 columns.
    warp_any(8, 1, 1),
    warp_any(16, 1, 2),
    warp_any(32, 2, 2),
    warp_any(64, 4, 2),
    warp_any(128, 8, 2),
    warp_any(256, 16, 2),
    // 0.836 at 2,001 columns, 0.831 at 4,001.
    line(4096, Rows::Any, Cover::Staged(Exp::Ieee, 1)),
    // 0.984 at 5,001 columns, with one warp 0.952.
    line(6144, Rows::Any, Cover::Staged(Exp::Fast, 2)),
    // 0.967 at 9,001 columns.
    line(12_288, Rows::Any, Cover::Staged(Exp::Fast, 3)),
    // 0.979 at 20,001 columns.
    line(32_768, Rows::Any, Cover::Staged(Exp::Fast, 4)),
    line(32_768, Rows::Any, Cover::Staged(Exp::Ieee, 1)),
    // 0.970 at 40,001 columns, 0.957 at 50,257, 0.929 at 100,001, 0.904 at 200,001; IEEE 0.374 at 50,257, `stream`
    // 0.183.
    line(LONGEST_SPLIT, Rows::Any, Cover::SplitStaged(Exp::Fast)),
    line(LONGEST_SPLIT, Rows::Any, Cover::SplitStaged(Exp::Ieee)),
    STREAM,
];

fn choices(input: DType) -> &'static [Choice] {
    match input {
        DType::F32 => F32,
        DType::F16 | DType::BF16 => SIXTEEN_BITS,
    }
}

/// Whether all of every row moves in vectors of 16 input bytes.
pub(crate) fn is_aligned(problem: &Problem) -> bool {
    let vector_elems = problem.input().vector_elems();
    let vector_bytes_out = vector_elems * problem.output().size_bytes() as u32;
    (problem.cols() as u32).is_multiple_of(vector_elems)
        && problem.row_alignment_in() >= 16
        && problem.row_alignment_out() >= vector_bytes_out.min(16)
}

impl Cover {
    fn way(self) -> Way {
        match self {
            Self::Warp { .. } => Way::Warp,
            Self::Packed { .. } => Way::Packed,
            Self::Block => Way::Block,
            Self::Spread => Way::Spread,
            Self::Parked(_) => Way::Parked,
            Self::Staged(..) => Way::Staged,
            Self::Split(_) => Way::Split,
            Self::SplitSpread(_) => Way::SplitSpread,
            Self::SplitParked(_) => Way::SplitParked,
            Self::SplitStaged(_) => Way::SplitStaged,
            Self::Stream => Way::Stream,
        }
    }

    fn exp(self) -> Exp {
        match self {
            Self::Parked(exp)
            | Self::Staged(exp, _)
            | Self::Split(exp)
            | Self::SplitSpread(exp)
            | Self::SplitParked(exp)
            | Self::SplitStaged(exp) => exp,
            Self::Warp { .. } | Self::Packed { .. } | Self::Block | Self::Spread | Self::Stream => {
                Exp::Ieee
            }
        }
    }

    /// Longest row that the kernel can hold.
    fn capacity(self, input: DType, properties: &DeviceProperties) -> u32 {
        match self {
            Self::Warp { lanes, steps } | Self::Packed { lanes, steps } => {
                lanes * steps * input.vector_elems()
            }
            Self::Staged(..) if !self.stages_several(input) => MAX_STAGED_WARPS * CHUNK,
            Self::Block | Self::Staged(..) => MAX_WARPS * CHUNK,
            Self::Spread => MAX_WARPS / QUARTERS * CHUNK,
            Self::SplitSpread(_) => properties.max_cluster_blocks * MAX_WARPS / QUARTERS * CHUNK,
            // As much as shared memory holds.
            Self::Parked(_) => LONGEST_SPLIT,
            Self::Split(_) | Self::SplitParked(_) | Self::SplitStaged(_) => {
                properties.max_cluster_blocks * MAX_SPLIT_WARPS * CHUNK
            }
            Self::Stream => MAX_COLS as u32,
        }
    }

    fn entry(self, input: DType, output: DType) -> String {
        let way = self.way();
        match self {
            Self::Warp { lanes, steps } | Self::Packed { lanes, steps } => {
                format!("softmax_{way}_{lanes}x{steps}_{input}_{output}")
            }
            _ => {
                let fast = match self.exp() {
                    Exp::Fast => "_fast",
                    Exp::Ieee => "",
                };
                format!("softmax_{way}{fast}_{input}_{output}")
            }
        }
    }

    /// Blocks that share a row.
    fn cluster(self, rows: Rows, input: DType, cols: u32, properties: &DeviceProperties) -> u32 {
        let chunks = chunked::chunks(cols);
        let blocks = match self {
            // A row alone is fastest with 2 to 4 warps a block.
            Self::Split(_) if rows == Rows::AlignedFew => chunks.div_ceil(2).next_power_of_two(),
            Self::SplitSpread(_) => chunks.div_ceil(2).next_power_of_two(),
            // f32 at 65,536 columns: 0.986 with 8 warps a block, 0.982 with 4, 0.974 with 16.
            Self::Split(_) => chunks.div_ceil(8).next_power_of_two(),
            // 32 KiB of shared memory a block, where there are blocks enough: at 128,256 columns 0.974 with 16
            // blocks, 0.972 with 8. Short rows are better with half that: at 32,768 columns 0.982 with 8 blocks,
            // 0.977 with 4.
            Self::SplitParked(_) if input == DType::F32 => {
                chunks.div_ceil(if chunks <= 32 { 4 } else { 8 })
            }
            // bf16 at 131,072 columns: 0.985 with 11 blocks, 0.968 with 8, 0.965 with 16; at 65,536 0.987 with 4, 0.984 with 6.
            Self::SplitParked(_) => chunks.div_ceil(if chunks <= 64 { 16 } else { 12 }),
            Self::SplitStaged(_) if !self.stages_several(input) => {
                chunks.div_ceil(8).next_power_of_two()
            }
            // What a block has room for and its row does not fill counts most. bf16 at 50,257 columns: 0.957 with 5
            // blocks, 0.950 with 3, 0.929 with 4; at 200,001 0.904 with 11, 0.783 with 14.
            Self::SplitStaged(Exp::Fast) => chunks.div_ceil(if chunks <= 80 { 10 } else { 18 }),
            // f32 at 50,257 columns: 0.974 with 7 blocks, 0.961 with 9, 0.947 with 5; at 100,001 0.955 with 13,
            // 0.851 with 16; at 128,257 0.961 with 8, 0.923 with 16.
            Self::SplitStaged(Exp::Ieee) => chunks.div_ceil(if chunks <= 104 { 8 } else { 16 }),
            _ => return 1,
        };
        blocks.clamp(2, properties.max_cluster_blocks)
    }

    /// Warps of a block.
    fn warps(self, kernel: KernelId, input: DType, cols: u32, cluster: u32) -> u32 {
        let chunks = chunked::chunks(cols).max(1);
        let most = kernel.describe().max_threads / WARP;
        match self {
            Self::Warp { .. } | Self::Packed { .. } => most,
            Self::Block | Self::Split(_) => chunks.div_ceil(cluster),
            Self::Spread | Self::SplitSpread(_) => chunks.div_ceil(cluster) * QUARTERS,
            // f32 is better with a chunk a warp than with two: at 8,192 columns 0.987 and 0.977.
            Self::Parked(_) if input == DType::F32 => chunks.min(most),
            // bf16 at 8,192 columns: 0.980 with a chunk a warp, 0.964 with two.
            Self::Parked(_) if chunks <= 8 => chunks,
            Self::Parked(_) => chunks.div_ceil(2).min(8),
            Self::SplitParked(_) => {
                let in_block = chunks.div_ceil(cluster);
                let each = match (input, chunks) {
                    (DType::F32, _) if in_block <= 4 => 1,
                    // bf16 at 131,072 columns: 0.985 with four; at 262,144 0.975, with two 0.920.
                    (DType::F16 | DType::BF16, 65..) => 4,
                    _ => 2,
                };
                in_block.div_ceil(each).min(most)
            }
            Self::Staged(_, per_warp) => chunks.div_ceil(per_warp.max(chunks.div_ceil(most))),
            Self::SplitStaged(_) if !self.stages_several(input) => chunks.div_ceil(cluster),
            Self::SplitStaged(exp) => {
                let each = match exp {
                    Exp::Fast if chunks > 80 => 3,
                    Exp::Fast | Exp::Ieee => 2,
                };
                chunks.div_ceil(cluster).div_ceil(each).min(most)
            }
            Self::Stream => stream::BLOCK_THREADS / WARP,
        }
    }

    /// Whether a staged way can give a warp several chunks: not where it holds them in registers.
    fn stages_several(self, input: DType) -> bool {
        input == DType::F32 || self.exp() == Exp::Fast
    }

    fn elems_per_thread(self, input: DType) -> u32 {
        match self {
            Self::Warp { steps, .. } | Self::Packed { steps, .. } => steps * input.vector_elems(),
            Self::Spread | Self::SplitSpread(_) => CHUNK / QUARTERS / WARP,
            _ => CHUNK / WARP,
        }
    }

    fn rows_per_block(self, warps: u32) -> u32 {
        match self {
            Self::Warp { lanes, .. } | Self::Packed { lanes, .. } => warps * WARP / lanes,
            _ => 1,
        }
    }

    /// Shared memory of a block for rows of `cols` elements, which the kernel can hold.
    fn shared_bytes(self, warps: u32, cluster: u32, problem: &Problem, cols: u32) -> u32 {
        let chunks = chunked::chunks(cols);
        let size_in = problem.input().size_bytes() as u32;
        let size_out = problem.output().size_bytes() as u32;
        match self {
            Self::Warp { .. } => 0,
            Self::Packed { lanes, steps } => {
                let widest = problem
                    .input()
                    .size_bytes()
                    .max(problem.output().size_bytes());
                let vector = problem.input().vector_elems();
                warps * packed::stage_bytes(lanes, steps, vector, cols, widest as u32)
            }
            Self::Block => <Block>::bytes(warps),
            Self::Spread => {
                chunked::shared_bytes(Block::<QUARTERS>::bytes(chunks), Quarters::bytes(warps))
            }
            Self::SplitSpread(_) => {
                chunked::shared_bytes(Cluster::<QUARTERS>::bytes(chunks), Quarters::bytes(warps))
            }
            Self::Parked(_) => chunked::shared_bytes(
                <Block>::bytes(chunks),
                chunked::parked_bytes(warps, 1, cols, size_in),
            ),
            Self::SplitParked(_) => chunked::shared_bytes(
                <Cluster>::bytes(chunks),
                chunked::parked_bytes(warps, cluster, cols, size_in),
            ),
            Self::Staged(..) => chunked::shared_bytes(
                <Block>::bytes(chunks),
                chunked::stages_bytes(warps, 1, cols, size_in, size_out),
            ),
            Self::Split(_) => <Cluster>::bytes(chunks),
            Self::SplitStaged(_) => chunked::shared_bytes(
                <Cluster>::bytes(chunks),
                chunked::stages_bytes(warps, cluster, cols, size_in, size_out),
            ),
            Self::Stream => stream::SHARED_BYTES,
        }
    }
}

/// Blocks of a launch of so many clusters of `cluster` blocks, if a launch can have them.
fn grid(clusters: u32, cluster: u32) -> Option<u32> {
    let grid = clusters.checked_mul(cluster)?;
    (grid <= MAX_GRID).then_some(grid)
}

/// The longest row, up to `longest`, that `fits`; if one does, so do all that are shorter.
#[cold]
fn longest_that(longest: u32, fits: impl Fn(u32) -> bool) -> u32 {
    let (mut fit, mut too_long) = (0, longest + 1);
    while too_long - fit > 1 {
        let middle = fit + (too_long - fit) / 2;
        if fits(middle) {
            fit = middle;
        } else {
            too_long = middle;
        }
    }
    fit
}

/// A kernel, by its place in the registry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelId(u16);

impl KernelId {
    fn named(name: &str) -> Option<Self> {
        let index = REGISTRY.iter().position(|kernel| kernel.name == name)?;
        Some(Self(index as u16))
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
            entries.map(|entry| KernelId::named(&entry)).collect()
        })
    })
});

/// What the table is asked, line by line.
struct Request<'a> {
    problem: &'a Problem,
    properties: &'a DeviceProperties,
    forced: Option<Way>,
    exp: Exp,
    is_aligned: bool,
}

impl Request<'_> {
    /// The longest row that the line may be for, if it is for these and the device can run its kernel.
    // For most lines the answer takes less than a call.
    #[inline(always)]
    fn longest(&self, choice: &Choice) -> Option<u32> {
        let &Choice {
            longest,
            rows,
            cover,
        } = choice;
        let is_wanted = match self.forced {
            Some(way) => way == cover.way(),
            None => self.problem.cols() as u32 <= longest,
        };
        // What most lines fail comes first.
        if !is_wanted || cover.exp() != self.exp || !self.rows_are(rows) || !self.can_run(cover) {
            return None;
        }
        let capacity = cover.capacity(self.problem.input(), self.properties);
        Some(match self.forced {
            Some(_) => capacity,
            None => longest.min(capacity),
        })
    }

    /// Whether the rows are of those that a line is for.
    fn rows_are(&self, rows: Rows) -> bool {
        match rows {
            Rows::Any => true,
            // If forced, for whatever rows its kernel can do with, but not a shape that is for few where there are many.
            Rows::Aligned => self.is_aligned || self.forced.is_some(),
            Rows::AlignedFew => self.is_aligned && self.has_few_rows(),
            Rows::AlignedChunks(most) => {
                self.forced.is_some() || self.is_aligned && self.has_few_chunks(most)
            }
        }
    }

    /// Whether a row should have many blocks.
    fn has_few_rows(&self) -> bool {
        self.problem.cols() >= SHORTEST_SPLIT
            && self.problem.rows() <= u64::from(self.properties.multiprocessors / 8)
    }

    /// Whether the rows have at most so many chunks for each multiprocessor.
    fn has_few_chunks(&self, most: u32) -> bool {
        let chunks = u64::from(chunked::chunks(self.problem.cols() as u32));
        let all = self.problem.rows().saturating_mul(chunks);
        all <= u64::from(self.properties.multiprocessors) * u64::from(most)
    }

    /// Whether the kernel can do with the rows, and the device with the kernel.
    fn can_run(&self, cover: Cover) -> bool {
        let has_clusters = self.properties.max_cluster_blocks > 1;
        // There may be none.
        let takes_aligned = self.is_aligned || self.problem.rows() == 0;
        match cover {
            Cover::Packed { lanes, steps } => {
                let vector = self.problem.input().vector_elems();
                self.problem.is_packed()
                    && self.problem.cols().max(1) as u32 >= packed::shortest(lanes, steps, vector)
            }
            Cover::Block | Cover::Spread | Cover::Parked(_) => takes_aligned,
            Cover::Split(_) | Cover::SplitSpread(_) | Cover::SplitParked(_) => {
                takes_aligned && has_clusters
            }
            Cover::SplitStaged(_) => has_clusters,
            Cover::Warp { .. } | Cover::Staged(..) | Cover::Stream => true,
        }
    }

    /// Warps of a block, blocks that share a row, and shared memory of a block, for rows of `cols` elements; nothing if
    /// the device has less shared memory.
    fn shape(&self, choice: &Choice, kernel: KernelId, cols: u32) -> Option<(u32, u32, u32)> {
        let (input, cover) = (self.problem.input(), choice.cover);
        let cluster = cover.cluster(choice.rows, input, cols, self.properties);
        let warps = cover.warps(kernel, input, cols, cluster);
        let shared_bytes = cover.shared_bytes(warps, cluster, self.problem, cols);
        let fits = shared_bytes <= self.properties.max_shared_bytes_per_block;
        fits.then_some((warps, cluster, shared_bytes))
    }

    /// The plan of a line, if the rows are of those that it is for.
    fn plan(&self, choice: &Choice, kernel: Option<KernelId>) -> Option<Plan> {
        let (kernel, cols) = (kernel?, self.problem.cols() as u32);
        if cols > self.longest(choice)? {
            return None;
        }
        let cover = choice.cover;
        let (warps, cluster, shared_bytes) = self.shape(choice, kernel, cols)?;
        let rows_per_block = cover.rows_per_block(warps);
        let (launches, rows) = self.problem.parts();
        Some(Plan {
            kernel,
            way: cover.way(),
            threads_per_block: warps * WARP,
            elems_per_thread: cover.elems_per_thread(self.problem.input()),
            rows_per_block,
            shared_bytes,
            blocks_per_row: cluster,
            grid: grid(rows.div_ceil(rows_per_block), cluster)?,
            launches,
        })
    }

    /// That there is no plan, and how long a row may be.
    #[cold]
    fn refusal(&self, kernels: &[Option<KernelId>]) -> Error {
        let cols = self.problem.cols() as u32;
        let lines = choices(self.problem.input()).iter().zip(kernels);
        let limits = lines.filter_map(|(choice, kernel)| {
            let (kernel, longest) = ((*kernel)?, self.longest(choice)?);
            let fits = |cols| self.shape(choice, kernel, cols).is_some();
            // One that could hold the row cannot have so many.
            (cols > longest || !fits(cols)).then(|| longest_that(longest, fits))
        });
        Error::WayNotPossible {
            // The last line of either table takes any row on any device, with IEEE exponentials.
            way: self.forced.unwrap_or(Way::Stream),
            cols: self.problem.cols(),
            limit: limits.max().unwrap_or(0) as usize,
        }
    }
}

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
    blocks_per_row: u32,
    grid: u32,
    launches: u64,
}

impl Plan {
    /// Chooses a way for `problem`, or takes the forced one. `reproducible`: only kernels that give the same
    /// bits on every device, which a forced way always does.
    ///
    /// # Errors
    ///
    /// [`Error::WayNotPossible`] where the forced way cannot hold the row, or is for other rows, or the device cannot run
    /// it.
    pub fn new(
        problem: &Problem,
        properties: &DeviceProperties,
        forced: Option<Way>,
        reproducible: bool,
    ) -> Result<Self, Error> {
        let (input, output) = (problem.input(), problem.output());
        let kernels = &KERNELS[input as usize][output as usize];
        // Whether they are fast may depend on nothing but the row's length, its type and the device: then a
        // row has the same bits wherever it lies and whatever it is in company with.
        let exp = if reproducible || forced.is_some() {
            Exp::Ieee
        } else {
            Exp::of(problem, properties)
        };
        let request = Request {
            problem,
            properties,
            forced,
            exp,
            is_aligned: is_aligned(problem),
        };
        let mut lines = choices(input).iter().zip(kernels);
        lines
            .find_map(|(choice, kernel)| request.plan(choice, *kernel))
            .ok_or_else(|| request.refusal(kernels))
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

    /// Rows that a block covers, at once or one after the other.
    pub fn rows_per_block(&self) -> u32 {
        self.rows_per_block
    }

    /// Blocks that share a row, as a cluster; 1 if a block has its rows to itself.
    pub fn blocks_per_row(&self) -> u32 {
        self.blocks_per_row
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
             {} rows a block, {} blocks a row, {} bytes of shared memory a block",
            self.way,
            self.kernel_name(),
            self.launches,
            self.grid,
            self.threads_per_block,
            self.elems_per_thread,
            self.rows_per_block,
            self.blocks_per_row,
            self.shared_bytes,
        )
    }
}

/// Ways of covering a row of attention scores.
const ATTENTION: [Way; 4] = [Way::Warp, Way::Block, Way::Split, Way::Stream];

/// What a kernel of attention has to be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// Masks and sinks, where scores, results and masks move in whole vectors.
    Masks,
    /// All but logarithms, wherever things lie.
    Any,
    /// All, with exponentials of the accuracy of f32 results.
    Logs,
}

impl Ability {
    /// All of them.
    const ALL: [Self; 3] = [Self::Masks, Self::Any, Self::Logs];

    /// How names of kernels say so. Where there is no kernel for less, as for f32 results, one for more does the same.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Masks => &["", "_any", "_log"],
            Self::Any => &["_any", "_log"],
            Self::Logs => &["_log"],
        }
    }
}

/// The kernels of each way of [`ATTENTION`], for each [`Ability`].
type OfWays = [[Option<KernelId>; Ability::ALL.len()]; ATTENTION.len()];

/// Those of attention by input and output type.
static ATTENTION_KERNELS: LazyLock<[[OfWays; 3]; 3]> = LazyLock::new(|| {
    DType::ALL.map(|input| {
        DType::ALL.map(|output| {
            ATTENTION.map(|way| {
                Ability::ALL.map(|ability| {
                    ability.names().iter().find_map(|able| {
                        KernelId::named(&format!("attention_{way}{able}_{input}_{output}"))
                    })
                })
            })
        })
    })
});

/// How many rows a block of `warps` warps walks one after the other: few enough that no multiprocessor is left without work
/// while others have much of it.
fn walked(rows: u32, warps: u32, properties: &DeviceProperties) -> u32 {
    // Of 64 registers a thread, a multiprocessor has 32 warps.
    let at_once = (properties.multiprocessors * 32 / warps).max(1);
    match rows / at_once {
        128.. => 8,
        16.. => 4,
        8.. => 2,
        _ => 1,
    }
}

impl Plan {
    /// Chooses a way for rows of attention scores, or takes the forced one.
    /// `launches` launches, the largest of `rows` rows.
    ///
    /// # Errors
    ///
    /// [`Error::WayNotPossible`] where the forced way cannot hold the row, or the device cannot run it.
    pub(crate) fn of_scores(
        problem: &Problem,
        properties: &DeviceProperties,
        forced: Option<Way>,
        ability: Ability,
        (launches, rows): (u64, u32),
    ) -> Result<Self, Error> {
        let cols = problem.cols() as u32;
        let kernels = &ATTENTION_KERNELS[problem.input() as usize][problem.output() as usize];
        let mut limit = 0;
        for (way, kernels) in ATTENTION.into_iter().zip(kernels) {
            let Some(kernel) = kernels[ability as usize] else {
                continue;
            };
            if forced.is_some_and(|forced| forced != way) {
                continue;
            }
            let most_warps = kernel.describe().max_threads / WARP;
            let walks =
                attention::block_walks(problem.input().size_bytes(), ability == Ability::Masks);
            // Blocks that share a row, warps of a block, shared memory. Evidence is bandwidth as a fraction of a copy's in
            // the same run, on an H200, 2026-11-30, without a mask, with an additive one and with a boolean one. Of 32 heads of
            // 2,048 x 2,048 scores: f32 0.97, 0.88, 0.92, with two rows a block 0.94, 0.89, 0.91; bf16 with one row a block 0.88,
            // 0.77, 0.76, with two 0.92, 0.83, 0.81, with four 0.92, 0.85, 0.83. Of 1,024 x 1,000: bf16 with one 0.84, 0.72, 0.70,
            // with two 0.87, 0.77, 0.76, with four 0.84, 0.76, 0.76: too few blocks. Of 512 x 512, half a warp a row: f32 with two
            // rows a block 0.96, 0.91, 0.94, with four 0.92, 0.89, 0.90, bf16 0.85, 0.73, 0.73 and 0.86, 0.74, 0.75; a whole warp a
            // row had 0.81, 0.70, 0.71 and 0.57, 0.48, 0.48. Of 64 heads of 4,096 x 4,096, bf16 with four rows a block 0.91, 0.86, 0.84,
            // with eight 0.91, 0.87, 0.85; of 2,048 x 2,048 0.89, 0.84, 0.83 and 0.88, 0.84, 0.82. Kernels for f32 have 64 registers: with 72, causal scores
            // take 0.87 of a copy's time, and not 0.80.
            let shape = |cols: u32| {
                let chunks = chunked::chunks(cols).max(1);
                let (blocks, warps, exchange) = match way {
                    Way::Warp => (1, 1, Alone::bytes(chunks)),
                    Way::Block if walks => (1, chunks, BlockInTurns::bytes(chunks)),
                    Way::Block => (1, chunks, <Block>::bytes(chunks)),
                    Way::Split => {
                        let blocks = chunks
                            .div_ceil(most_warps)
                            .next_power_of_two()
                            .clamp(2, properties.max_cluster_blocks.max(2));
                        (blocks, chunks.div_ceil(blocks), <Cluster>::bytes(chunks))
                    }
                    _ => return (1, attention::STREAM_WARPS, attention::STREAM_BYTES),
                };
                (blocks, warps, attention::shared_bytes(exchange, warps))
            };
            let fits = |cols| shape(cols).2 <= properties.max_shared_bytes_per_block;
            let longest = match way {
                Way::Warp => CHUNK / 2,
                Way::Block => most_warps * CHUNK,
                Way::Split if properties.max_cluster_blocks > 1 => {
                    LONGEST_SPLIT.min(properties.max_cluster_blocks * most_warps * CHUNK)
                }
                Way::Split => 0,
                _ => MAX_COLS as u32,
            };
            if cols > longest || longest == 0 || !fits(cols) {
                limit = limit.max(longest_that(longest, fits));
                continue;
            }
            let (cluster, warps, shared_bytes) = shape(cols);
            let rows_per_block = match way {
                // Two at once.
                Way::Warp if problem.input() == DType::F32 => 2,
                Way::Warp => walked(rows, warps, properties).max(2),
                Way::Block if walks => walked(rows, warps, properties),
                _ => 1,
            };
            let Some(grid) = grid(rows.div_ceil(rows_per_block), cluster) else {
                continue;
            };
            return Ok(Self {
                kernel,
                way,
                threads_per_block: warps * WARP,
                elems_per_thread: CHUNK / WARP,
                rows_per_block,
                shared_bytes,
                blocks_per_row: cluster,
                grid,
                launches,
            });
        }
        Err(Error::WayNotPossible {
            way: forced.unwrap_or(Way::Stream),
            cols: problem.cols(),
            limit: limit as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// As an A100 has it, or less.
    fn small() -> DeviceProperties {
        DeviceProperties {
            compute_capability: Some((8, 0)),
            multiprocessors: 1,
            max_shared_bytes_per_block: 160 * 1024,
            max_cluster_blocks: 1,
            l2_bytes: 0,
        }
    }

    /// As an H200 has it.
    fn large() -> DeviceProperties {
        DeviceProperties {
            compute_capability: Some((9, 0)),
            multiprocessors: 132,
            max_shared_bytes_per_block: 227 * 1024,
            max_cluster_blocks: 16,
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
            false,
        )
    }

    /// From a row of 4,097 elements of 16 bits on to the longest that the device holds, of any alignment.
    #[test]
    fn fast_exponentials_end_where_the_device_does() {
        let stages = chunked::shared_bytes(
            <Block>::bytes(MAX_WARPS),
            chunked::stages_bytes(MAX_WARPS, 1, 32_768, 2, 2),
        );
        let device = |max_cluster_blocks, max_shared_bytes_per_block| DeviceProperties {
            max_cluster_blocks,
            max_shared_bytes_per_block,
            ..large()
        };
        for (properties, longest) in [
            (device(1, stages - 1), 0),
            (device(1, stages), 32_768),
            (device(2, stages), 32_768),
            (device(8, stages), 131_072),
            (device(16, stages), 262_144),
            (device(32, stages), 262_144),
        ] {
            for cols in [
                4096, 4097, 32_768, 32_769, 131_072, 131_073, 262_144, 262_145,
            ] {
                for dtypes in pairs() {
                    let problem = Problem::packed(&[1, cols], dtypes.0, dtypes.1).unwrap();
                    let is_16_bit = dtypes.0 == dtypes.1 && dtypes.0 != DType::F32;
                    assert_eq!(
                        Exp::of(&problem, &properties) == Exp::Fast,
                        is_16_bit && cols > 4096 && cols <= longest,
                        "{cols} of {dtypes:?} on {properties:?}"
                    );
                    // Nor does any length end up without a kernel for its exponentials.
                    Plan::new(&problem, &properties, None, false).unwrap();
                }
            }
        }
    }

    /// Elements that the plan's kernel can hold, by what its name says.
    fn capacity(plan: &Plan, (input, output): (DType, DType)) -> usize {
        let name = plan.kernel_name();
        let threads = plan.threads_per_block() as usize;
        match plan.way() {
            Way::Warp | Way::Packed => {
                let shape = name.split('_').nth(2).unwrap();
                let (lanes, steps) = shape.split_once('x').unwrap();
                let lanes: usize = lanes.parse().unwrap();
                let steps: usize = steps.parse().unwrap();
                assert_eq!(plan.rows_per_block() as usize, threads / lanes);
                lanes * steps * 16 / input.size_bytes()
            }
            Way::Block => threads * 32,
            Way::Spread | Way::SplitSpread => threads * 8 * plan.blocks_per_row() as usize,
            Way::Split => threads * 32 * plan.blocks_per_row() as usize,
            Way::Parked | Way::SplitParked => {
                (plan.shared_bytes() / chunked::parked_bytes(1, 1, 1, input.size_bytes() as u32))
                    as usize
                    * CHUNK as usize
                    * plan.blocks_per_row() as usize
            }
            // A stage for every chunk.
            Way::Staged | Way::SplitStaged => {
                (plan.shared_bytes()
                    / chunked::stages_bytes(
                        1,
                        1,
                        1,
                        input.size_bytes() as u32,
                        output.size_bytes() as u32,
                    )) as usize
                    * CHUNK as usize
                    * plan.blocks_per_row() as usize
            }
            Way::Stream => usize::MAX,
        }
    }

    #[test]
    fn every_length_gets_a_kernel_that_holds_it() {
        for types in pairs() {
            let (input, output) = types;
            let ways = Way::ALL.map(Some).into_iter().chain([None]);
            for (cols, forced) in
                (0..=70_000).flat_map(|cols| ways.clone().map(move |way| (cols, way)))
            {
                let plan = match plan(cols, types, forced) {
                    Ok(plan) => plan,
                    Err(Error::WayNotPossible {
                        way,
                        cols: given,
                        limit,
                    }) => {
                        assert_eq!((Some(way), given), (forced, cols));
                        let expected = match way {
                            Way::Warp => 1024,
                            Way::Packed if input == DType::F32 => 512,
                            Way::Packed => 1024,
                            Way::Staged if input != DType::F32 => 24_576,
                            // The device has no clusters.
                            Way::Split | Way::SplitSpread | Way::SplitParked | Way::SplitStaged => {
                                0
                            }
                            // Rows that are not aligned.
                            Way::Block | Way::Spread | Way::Parked
                                if !cols.is_multiple_of(input.vector_elems() as usize) =>
                            {
                                0
                            }
                            // Types without a kernel. Else what the device's shared memory holds, 32 chunks of f32,
                            // in blocks of 16 warps.
                            Way::Parked if input != output => 0,
                            Way::Spread => 8192,
                            Way::Parked if input == DType::F32 => 32_768,
                            Way::Parked => 65_536,
                            _ => 32_768,
                        };
                        assert!(
                            limit == expected && (cols > limit || limit == 0),
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
                assert!(capacity(&plan, types) >= cols, "{cols}: {plan}");
                assert!(
                    plan.threads_per_block() <= kernel.max_threads,
                    "{cols}: {plan}"
                );
                assert!(plan.threads_per_block() > 0 && plan.threads_per_block() % WARP == 0);
                assert_eq!(forced.unwrap_or(plan.way()), plan.way());
                let rows: u32 = if cols == 0 { 0 } else { 7 };
                assert_eq!(
                    plan.grid(),
                    rows.div_ceil(plan.rows_per_block()) * plan.blocks_per_row(),
                    "{cols}: {plan}"
                );
            }
        }
    }

    #[test]
    fn the_fastest_way_is_taken() {
        let way = |rows: usize, cols: usize, padding: usize, types: (DType, DType)| {
            let (shape, strides) = ([rows, cols], [cols + padding, 1]);
            let problem = Problem::new(&shape, (types.0, &strides), (types.1, &strides));
            Plan::new(&problem.unwrap(), &large(), None, false)
                .unwrap()
                .way()
        };
        for (cols, f32s, halves) in [
            (1, Way::Warp, Way::Packed),
            (17, Way::Packed, Way::Packed),
            (33, Way::Packed, Way::Packed),
            (512, Way::Warp, Way::Warp),
            (513, Way::Staged, Way::Packed),
            (1024, Way::Warp, Way::Warp),
            (1025, Way::Staged, Way::Staged),
            (1032, Way::Staged, Way::Block),
            (16_384, Way::Parked, Way::Block),
            (24_575, Way::Staged, Way::Staged),
            (24_577, Way::SplitStaged, Way::SplitStaged),
            (32_768, Way::SplitParked, Way::Split),
            (32_769, Way::SplitStaged, Way::SplitStaged),
            (32_776, Way::Split, Way::Split),
            (65_544, Way::SplitParked, Way::Split),
            (262_144, Way::SplitParked, Way::Split),
            (262_145, Way::Stream, Way::Stream),
            (MAX_COLS, Way::Stream, Way::Stream),
        ] {
            assert_eq!(way(600, cols, 0, (DType::F32, DType::F32)), f32s, "{cols}");
            assert_eq!(
                way(600, cols, 0, (DType::BF16, DType::F32)),
                halves,
                "{cols}"
            );
        }
        let f32s = (DType::F32, DType::F32);
        // Gaps that leave the rows aligned, and gaps that do not.
        assert_eq!(way(600, 512, 4, f32s), Way::Warp);
        assert_eq!(way(600, 33, 3, f32s), Way::Warp);
        assert_eq!(way(600, 300, 1, f32s), Way::Staged);
        // Few rows, on 132 multiprocessors.
        let halves = (DType::F16, DType::F16);
        for (cols, types, most, few, many) in [
            (256, f32s, 1, Way::Warp, Way::Warp),
            (512, f32s, 264, Way::Spread, Way::Warp),
            (1024, f32s, 528, Way::Spread, Way::Warp),
            (2048, f32s, 264, Way::SplitSpread, Way::Staged),
            (4096, f32s, 132, Way::SplitSpread, Way::Parked),
            (32_768, f32s, 16, Way::SplitSpread, Way::SplitParked),
            (65_540, f32s, 16, Way::Split, Way::SplitParked),
            (512, halves, 264, Way::Spread, Way::Warp),
            (2048, halves, 264, Way::Spread, Way::Block),
            (4096, halves, 66, Way::SplitSpread, Way::Block),
            (16_384, halves, 16, Way::SplitSpread, Way::SplitParked),
            (16_392, halves, 16, Way::Split, Way::SplitParked),
        ] {
            assert_eq!(way(most, cols, 0, types), few, "{most} rows of {cols}");
            assert_eq!(way(most + 1, cols, 0, types), many, "{most} + 1 of {cols}");
        }
        let without_clusters = DeviceProperties {
            multiprocessors: 108,
            ..small()
        };
        for (rows, cols, expected) in [
            (432, 1024, Way::Spread),
            (433, 1024, Way::Warp),
            (216, 2048, Way::Spread),
            (217, 2048, Way::Staged),
            (1, 4096, Way::Parked),
        ] {
            let problem = Problem::packed(&[rows, cols], DType::F32, DType::F32).unwrap();
            let plan = Plan::new(&problem, &without_clusters, None, false).unwrap();
            assert_eq!(plan.way(), expected, "{rows} rows of {cols}");
        }
        assert_eq!(way(16, 4092, 4, f32s), Way::SplitSpread);
        assert_eq!(way(16, 4092, 3, f32s), Way::Staged);
    }

    #[test]
    fn split_rows_have_blocks_of_the_measured_size() {
        let shape = |rows: usize, cols: usize, way| {
            let problem = Problem::packed(&[rows, cols], DType::F32, DType::F32).unwrap();
            let plan = Plan::new(&problem, &large(), Some(way), false).unwrap();
            (plan.blocks_per_row(), plan.threads_per_block() / WARP)
        };
        assert_eq!(shape(100, 4, Way::Split), (2, 1));
        assert_eq!(shape(1, 4, Way::SplitSpread), (2, 4));
        assert_eq!(shape(1, 32_768, Way::SplitSpread), (16, 8));
        assert_eq!(shape(1, 131_072, Way::SplitSpread), (16, 32));
        assert_eq!(shape(1, 1024, Way::Spread), (1, 4));
        assert_eq!(shape(1, 8192, Way::Spread), (1, 32));
        assert_eq!(shape(100, 65_536, Way::Split), (8, 8));
        assert_eq!(shape(100, 128_256, Way::Split), (16, 8));
        assert_eq!(shape(100, 262_144, Way::Split), (16, 16));
        assert_eq!(shape(100, 50_257, Way::SplitStaged), (7, 4));
        assert_eq!(shape(100, 128_257, Way::SplitStaged), (8, 8));
        assert_eq!(shape(100, 32_768, Way::SplitParked), (8, 4));
        assert_eq!(shape(100, 128_256, Way::SplitParked), (16, 4));
        assert_eq!(shape(100, 262_144, Way::SplitParked), (16, 8));
    }

    /// Chunks at both sides of whatever changes the shape of a block or a cluster.
    const CHUNKS: [usize; 34] = [
        1, 2, 3, 4, 5, 8, 9, 10, 12, 13, 16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 64, 65, 80, 81,
        97, 104, 105, 128, 129, 177, 208, 209, 256, 257,
    ];

    /// What the plan is for lengths of every kind on devices of every kind, a line where it changes.
    fn table() -> String {
        let portable = DeviceProperties {
            max_shared_bytes_per_block: 99 * 1024,
            max_cluster_blocks: 8,
            ..large()
        };
        let devices = [("H200", large()), ("99 KiB", portable), ("A100", small())];
        let types = [
            (DType::F32, DType::F32),
            (DType::F32, DType::BF16),
            (DType::BF16, DType::BF16),
            (DType::BF16, DType::F32),
        ];
        let short = [1, 4, 8, 16, 24, 32, 36, 40, 48, 56, 64, 128, 256, 512];
        let chunks = CHUNKS.map(|chunks| chunks * CHUNK as usize);
        let mut table = String::new();
        for ((device, properties), (input, output)) in devices
            .iter()
            .flat_map(|device| types.map(|types| (device, types)))
        {
            let of_types = format!("_{input}_{output}");
            let mut section =
                |what: &str, lengths: &[usize], plan: &dyn Fn(usize) -> Result<Plan, Error>| {
                    table += &format!("\n{device}, {input} to {output}: {what}\n");
                    let mut last = String::new();
                    for &cols in lengths {
                        let what = match plan(cols) {
                            Ok(plan) => format!(
                                "{} {}x{} {} {} {}",
                                plan.kernel_name().strip_suffix(&of_types).unwrap(),
                                plan.blocks_per_row(),
                                plan.threads_per_block(),
                                plan.elems_per_thread(),
                                plan.rows_per_block(),
                                plan.shared_bytes()
                            ),
                            Err(Error::WayNotPossible { limit, .. }) => format!("up to {limit}"),
                            Err(error) => panic!("{cols}: {error}"),
                        };
                        if what != last {
                            table += &format!("{cols} {what}\n");
                            last = what;
                        }
                    }
                };
            let with_gaps = |rows, cols, gaps: (usize, usize)| {
                let (x, y) = ([cols + gaps.0, 1], [cols + gaps.1, 1]);
                let problem = Problem::new(&[rows, cols], (input, &x), (output, &y))?;
                Plan::new(&problem, properties, None, false)
            };
            let plan = |rows, cols, forced, reproducible| {
                let problem = Problem::packed(&[rows, cols], input, output)?;
                Plan::new(&problem, properties, forced, reproducible)
            };
            // Short rows at both sides of every edge, then whole chunks and a vector more, both less `less`.
            let edges = |less: usize, chunks: &[usize]| -> Vec<usize> {
                let short = short.iter().flat_map(|&cols| [cols - 1, cols, cols + 1]);
                let chunks = chunks
                    .iter()
                    .flat_map(|&cols| [cols - less, cols + 8 - less]);
                let both: BTreeSet<usize> = short.chain(chunks).collect();
                both.into_iter().collect()
            };
            section("aligned", &edges(0, &chunks), &|cols| {
                plan(1000, cols, None, false)
            });
            section("aligned, few", &chunks, &|cols| plan(16, cols, None, false));
            section("unaligned", &edges(7, &chunks), &|cols| {
                plan(1000, cols, None, false)
            });
            section("unaligned, with gaps", &edges(7, &[]), &|cols| {
                with_gaps(1000, cols, (8, 8))
            });
            // Rows of results that begin at so many bytes, and no more.
            for bytes in [4, 8, 16] {
                let gap = bytes / output.size_bytes();
                let lengths = [16, 64, 1024, 4096, 16_384, 65_536];
                section(&format!("results at {bytes} bytes"), &lengths, &|cols| {
                    with_gaps(1000, cols, (0, gap))
                });
            }
            if input == output && input != DType::F32 {
                section("aligned, reproducible", &chunks, &|cols| {
                    plan(1000, cols, None, true)
                });
                section("unaligned, reproducible", &edges(7, &chunks), &|cols| {
                    plan(1000, cols, None, true)
                });
            }
            for way in Way::ALL {
                let chunks =
                    [1, 2, 9, 17, 24, 25, 33, 65, 129, 257].map(|chunks| chunks * 1024 - 8);
                let lengths = [&[0, 1, 33, 57, 65], &chunks[..]].concat();
                section(&format!("{way} forced"), &lengths, &|cols| {
                    plan(1000, cols, Some(way), false)
                });
            }
            for (ability, way) in [
                (Ability::Masks, None),
                (Ability::Any, None),
                (Ability::Logs, None),
                (Ability::Masks, Some(Way::Block)),
                (Ability::Masks, Some(Way::Split)),
            ] {
                let lengths = [
                    1, 2, 3, 8, 9, 16, 17, 24, 25, 28, 29, 32, 33, 48, 49, 64, 96, 128, 129,
                ];
                let lengths = lengths.map(|chunks| chunks * CHUNK as usize);
                let lengths = [&[0, 1], &lengths[..], &[256 << 10, (256 << 10) + 1]].concat();
                let forced = way.map_or(String::new(), |way| format!(", {way} forced"));
                section(&format!("scores, {ability:?}{forced}"), &lengths, &|cols| {
                    let problem = Problem::packed(&[100, cols], input, output)?;
                    Plan::of_scores(&problem, properties, way, ability, (1, 100))
                });
            }
        }
        table
    }

    /// Where a change is meant, `WARP_SOFTMAX_DRAW=1 cargo test -p warp-softmax --lib plan::` writes the table anew.
    #[test]
    fn every_plan_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans.txt");
        let file = std::fs::read_to_string(path).unwrap();
        let (head, old) = file.split_once("\n\n").unwrap();
        let new = table();
        if std::env::var_os("WARP_SOFTMAX_DRAW").is_some() {
            return std::fs::write(path, format!("{head}\n{new}")).unwrap();
        }
        let (old, new) = (old.trim().lines(), new.trim().lines());
        for (number, (old, new)) in old.clone().zip(new.clone()).enumerate() {
            assert_eq!(old, new, "line {number} after the head of {path}");
        }
        assert_eq!(old.count(), new.count(), "lines of {path}");
    }

    /// A block a row for as many rows as a launch may have; with more blocks a row it is not possible.
    #[test]
    fn a_launch_has_up_to_2_to_the_31_less_one_blocks() {
        let rows = MAX_GRID as usize;
        let problem = Problem::packed(&[rows, 4], DType::F32, DType::F32).unwrap();
        let plan = |way| Plan::new(&problem, &large(), Some(way), false);
        let scores = |way| {
            let ability = Ability::Masks;
            Plan::of_scores(&problem, &large(), Some(way), ability, (1, MAX_GRID))
        };
        for way in [Way::Block, Way::Stream] {
            assert_eq!(plan(way).unwrap().grid(), MAX_GRID);
            assert_eq!(scores(way).unwrap().grid(), MAX_GRID);
        }
        // Nor does it help that the row is as long as can be.
        let longest = LONGEST_SPLIT as usize;
        let longest = Problem::packed(&[rows, longest], DType::F32, DType::F32).unwrap();
        let longest = Plan::new(&longest, &large(), Some(Way::Split), false);
        for split in [plan(Way::Split), longest, scores(Way::Split)] {
            assert!(matches!(split, Err(Error::WayNotPossible { limit: 0, .. })));
        }
    }

    #[test]
    fn the_grid_is_that_of_the_largest_launch() {
        let grid = |shape: &[usize]| {
            let problem = Problem::packed(shape, DType::F32, DType::F32).unwrap();
            let plan = Plan::new(&problem, &large(), Some(Way::Block), false).unwrap();
            (plan.grid(), plan.launches())
        };
        assert_eq!(grid(&[5, 4]), (5, 1));
        assert_eq!(grid(&[MAX_GRID as usize + 7, 4]), (MAX_GRID, 2));
        for none in [&[0, 4][..], &[0, 3], &[5, 0]] {
            assert_eq!(grid(none), (0, 0));
        }
    }

    #[test]
    fn a_way_that_not_even_a_row_of_one_fits_has_the_limit_0() {
        let tiny = DeviceProperties {
            max_shared_bytes_per_block: 15,
            ..large()
        };
        let problem = Problem::packed(&[7, 4], DType::F32, DType::F32).unwrap();
        for way in [Way::Block, Way::Staged, Way::Split, Way::Stream] {
            for plan in [
                Plan::new(&problem, &tiny, Some(way), false),
                Plan::of_scores(&problem, &tiny, Some(way), Ability::Logs, (1, 7)),
            ] {
                assert!(matches!(plan, Err(Error::WayNotPossible { limit: 0, .. })));
            }
        }
    }

    #[test]
    fn clusters_of_two_are_clusters() {
        let pairs = DeviceProperties {
            max_cluster_blocks: 2,
            ..large()
        };
        let problem = |cols| Problem::packed(&[100, cols], DType::F32, DType::F32).unwrap();
        let shape = |plan: Plan| (plan.way(), plan.blocks_per_row(), plan.threads_per_block());
        let plan = |cols, way| Plan::new(&problem(cols), &pairs, way, false).unwrap();
        assert_eq!(shape(plan(32_768, None)), (Way::SplitParked, 2, 256));
        assert_eq!(shape(plan(32_767, None)), (Way::SplitStaged, 2, 256));
        // Five chunks for each block, two for each warp.
        let nine = plan(9 * 1024, Some(Way::SplitParked));
        assert_eq!(shape(nine), (Way::SplitParked, 2, 96));
        let ability = Ability::Masks;
        let scores = Plan::of_scores(&problem(40_000), &pairs, None, ability, (1, 100));
        assert_eq!(shape(scores.unwrap()), (Way::Split, 2, 640));
    }

    #[test]
    fn a_device_without_clusters_never_splits() {
        for cols in [40_000, 262_144] {
            assert_eq!(
                plan(cols, (DType::F32, DType::F32), None).unwrap().way(),
                Way::Stream
            );
            for way in [Way::Split, Way::SplitStaged] {
                assert!(matches!(
                    plan(cols, (DType::F32, DType::F32), Some(way)),
                    Err(Error::WayNotPossible { limit: 0, .. })
                ));
            }
        }
    }

    #[test]
    fn fast_exponentials_are_for_long_16_bit_rows_unless_bits_matter() {
        let name = |cols: usize, types: (DType, DType), forced, reproducible| {
            let problem = Problem::packed(&[100, cols], types.0, types.1).unwrap();
            let plan = Plan::new(&problem, &large(), forced, reproducible);
            plan.unwrap().kernel_name()
        };
        let halves = (DType::F16, DType::F16);
        assert_eq!(name(4096, halves, None, false), "softmax_block_f16_f16");
        assert_eq!(
            name(4104, halves, None, false),
            "softmax_parked_fast_f16_f16"
        );
        assert_eq!(name(4104, halves, None, true), "softmax_block_f16_f16");
        assert_eq!(
            name(4104, halves, Some(Way::Block), false),
            "softmax_block_f16_f16"
        );
        for cols in [1, 33, 1000, 4097, 5000, 20_000, 40_000, 50_257, 300_000] {
            for types in pairs() {
                let fast = |forced, reproducible| {
                    name(cols, types, forced, reproducible).contains("_fast_")
                };
                assert!(!fast(None, true));
                assert!(
                    !fast(None, false)
                        || (cols > 4096 && types.0 == types.1 && types.0 != DType::F32)
                );
            }
        }
    }

    #[test]
    fn every_kernel_is_in_the_table() {
        for (input, output) in pairs() {
            let of_pair = format!("_{input}_{output}");
            let compiled: BTreeSet<_> = REGISTRY
                .iter()
                .map(|kernel| kernel.name.to_string())
                .filter(|name| name.starts_with("softmax_") && name.ends_with(&of_pair))
                .collect();
            let has_fast = input == output && input != DType::F32;
            let chosen: BTreeSet<_> = choices(input)
                .iter()
                .filter(|choice| choice.cover.exp() == Exp::Ieee || has_fast)
                .filter(|choice| {
                    !matches!(choice.cover, Cover::Parked(_) | Cover::SplitParked(_))
                        || input == output
                })
                .map(|choice| choice.cover.entry(input, output))
                .collect();
            assert_eq!(compiled, chosen, "{input} to {output}");
        }
    }

    #[test]
    fn a_device_with_less_shared_memory_gets_less() {
        let problem = Problem::packed(&[7, 4096], DType::F32, DType::F32).unwrap();
        let properties = |max_shared_bytes_per_block| DeviceProperties {
            max_shared_bytes_per_block,
            ..small()
        };
        let needed = <Block>::bytes(4);
        let way = |bytes| Plan::new(&problem, &properties(bytes), Some(Way::Block), false);
        assert!(way(needed).is_ok());
        // Three warps have three chunks.
        assert!(matches!(
            way(needed - 1),
            Err(Error::WayNotPossible { limit: 3072, .. })
        ));
    }

    #[test]
    fn every_length_of_scores_gets_a_kernel_that_holds_it() {
        // As a GPU of the smallest shared memory has it.
        let tiny = DeviceProperties {
            max_shared_bytes_per_block: 99 * 1024,
            ..small()
        };
        let mut names = BTreeSet::new();
        for properties in [tiny, small(), large()] {
            for (input, output) in pairs() {
                for (ability, forced) in Ability::ALL.into_iter().flat_map(|ability| {
                    Way::ALL
                        .map(Some)
                        .into_iter()
                        .chain([None])
                        .map(move |w| (ability, w))
                }) {
                    for cols in [
                        0, 1, 1023, 1024, 1025, 16_384, 16_385, 24_576, 57_344, 57_345, 262_144,
                        262_145, MAX_COLS,
                    ] {
                        let problem = Problem::packed(&[7, cols], input, output).unwrap();
                        let plan = Plan::of_scores(&problem, &properties, forced, ability, (1, 7));
                        let Ok(plan) = plan else {
                            assert!(forced.is_some() && forced != Some(Way::Stream), "{cols}");
                            continue;
                        };
                        names.insert(plan.kernel_name());
                        if plan.way() == Way::Block && ability == Ability::Masks {
                            // Or the plan would be wrong about whether its blocks walk rows.
                            let name = format!("attention_block_{input}_{output}");
                            assert_eq!(plan.kernel_name(), name);
                        }
                        let warps = plan.threads_per_block() / WARP;
                        assert!(plan.threads_per_block() <= plan.kernel.describe().max_threads);
                        assert!(plan.shared_bytes() <= properties.max_shared_bytes_per_block);
                        assert_eq!(
                            plan.grid(),
                            7u32.div_ceil(plan.rows_per_block()) * plan.blocks_per_row()
                        );
                        let chunks = match plan.way() {
                            Way::Stream => u32::MAX,
                            // One a warp.
                            _ => warps * plan.blocks_per_row(),
                        };
                        assert!(
                            chunked::chunks(cols as u32) <= chunks,
                            "{cols}: {plan}, {warps} warps"
                        );
                    }
                }
            }
        }
        let attention = REGISTRY
            .iter()
            .filter(|kernel| kernel.name.starts_with("attention_"));
        assert_eq!(names, attention.map(|kernel| kernel.name).collect());
    }

    #[test]
    fn scores_take_the_way_that_their_length_asks_for() {
        let way = |properties: &DeviceProperties, cols: usize| {
            let problem = Problem::packed(&[100, cols], DType::F32, DType::F32).unwrap();
            let plan = Plan::of_scores(&problem, properties, None, Ability::Masks, (1, 100));
            plan.unwrap().way()
        };
        for (cols, with_clusters, without) in [
            (512, Way::Warp, Way::Warp),
            (513, Way::Block, Way::Block),
            (1024, Way::Block, Way::Block),
            (32_768, Way::Block, Way::Block),
            (32_769, Way::Split, Way::Stream),
            (262_144, Way::Split, Way::Stream),
            (262_145, Way::Stream, Way::Stream),
        ] {
            assert_eq!(way(&large(), cols), with_clusters, "{cols}");
            assert_eq!(way(&small(), cols), without, "{cols}");
        }
    }

    #[test]
    fn blocks_walk_rows_where_there_are_many() {
        let walked = |rows: u32, cols, input, ability| {
            let problem = Problem::packed(&[rows as usize, cols], input, input).unwrap();
            let plan = Plan::of_scores(&problem, &large(), None, ability, (1, rows)).unwrap();
            assert_eq!(
                plan.grid(),
                rows.div_ceil(plan.rows_per_block()) * plan.blocks_per_row()
            );
            plan.rows_per_block()
        };
        // All that the multiprocessors hold at once, of a warp a row.
        let at_once = large().multiprocessors * 32;
        assert_eq!(walked(8 * at_once - 1, 1000, DType::F16, Ability::Masks), 1);
        assert_eq!(
            walked(16 * at_once - 1, 1000, DType::F16, Ability::Masks),
            2
        );
        for (rounds, rows) in [(1, 1), (8, 2), (16, 4), (127, 4), (128, 8), (1000, 8)] {
            let some = rounds * at_once;
            assert_eq!(walked(some, 1000, DType::BF16, Ability::Masks), rows);
            // Two warps a row: half as many at once.
            assert_eq!(walked(some / 2, 1025, DType::BF16, Ability::Logs), rows);
            assert_eq!(walked(some, 512, DType::BF16, Ability::Masks), rows.max(2));
            // The memory is what f32 waits for, unless logarithms are asked for.
            assert_eq!(walked(some, 512, DType::F32, Ability::Masks), 2);
            assert_eq!(walked(some, 1000, DType::F32, Ability::Masks), 1);
            assert_eq!(walked(some, 1000, DType::F32, Ability::Logs), rows);
            assert_eq!(walked(some, 50_000, DType::BF16, Ability::Masks), 1);
        }
    }

    #[test]
    fn plans_say_what_they_are() {
        let plan = plan(1032, (DType::F16, DType::F32), None).unwrap();
        assert_eq!(
            plan.to_string(),
            "block: softmax_block_f16_f32, 1 launch of up to 7 blocks, 64 threads a block, \
             32 elements a thread, 1 rows a block, 1 blocks a row, 32 bytes of shared memory a block"
        );
    }
}
