//! Where the calling thread stands in its block and grid, and the block barrier.

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::context;
#[cfg(target_arch = "nvptx64")]
use core::arch::nvptx;

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident = $device:ident, $host:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        ///
        /// On the host, outside a launch.
        #[inline(always)]
        pub fn $name() -> u32 {
            by_target! {
                // SAFETY: reads a special register.
                device: unsafe { nvptx::$device() },
                host: $host,
            }
        }
    )*};
}

index! {
    /// Index of the thread in its block, first dimension.
    thread_idx_x = _thread_idx_x, context::current().index();
    /// Index of the thread in its block, second dimension. The emulator's blocks have one dimension.
    thread_idx_y = _thread_idx_y, 0;
    /// Index of the thread in its block, third dimension. The emulator's blocks have one dimension.
    thread_idx_z = _thread_idx_z, 0;
    /// Index of the block in the grid, first dimension.
    block_idx_x = _block_idx_x, context::current().block().index();
    /// Index of the block in the grid, second dimension. The emulator's grids have one dimension.
    block_idx_y = _block_idx_y, 0;
    /// Index of the block in the grid, third dimension. The emulator's grids have one dimension.
    block_idx_z = _block_idx_z, 0;
    /// Threads of a block along the first dimension.
    block_dim_x = _block_dim_x, context::current().block().threads();
    /// Threads of a block along the second dimension. The emulator's blocks have one dimension.
    block_dim_y = _block_dim_y, 1;
    /// Threads of a block along the third dimension. The emulator's blocks have one dimension.
    block_dim_z = _block_dim_z, 1;
    /// Blocks of the grid along the first dimension.
    grid_dim_x = _grid_dim_x, context::current().block().grid().blocks;
    /// Blocks of the grid along the second dimension. The emulator's grids have one dimension.
    grid_dim_y = _grid_dim_y, 1;
    /// Blocks of the grid along the third dimension. The emulator's grids have one dimension.
    grid_dim_z = _grid_dim_z, 1;
}

/// Index of the thread in a one-dimensional grid: `thread_idx_x + block_idx_x * block_dim_x`, modulo 2^32.
#[inline(always)]
pub fn index_1d() -> u32 {
    thread_idx_x().wrapping_add(block_idx_x().wrapping_mul(block_dim_x()))
}

/// Waits until every thread of the block is here; what each wrote before, all see after.
///
/// | who calls | valid in | scratch | afterwards |
/// |---|---|---|---|
/// | all threads, uniform branch | all threads | none | shared and global writes of the block are visible |
///
/// In the emulator a thread that does not come, or waits at a barrier on another source line, is a fault.
#[inline(always)]
#[track_caller]
pub fn sync_threads() {
    by_target! {
        // SAFETY: a barrier reads and writes nothing itself.
        device: unsafe { nvptx::_syncthreads() },
        host: context::block_barrier(),
    }
}
