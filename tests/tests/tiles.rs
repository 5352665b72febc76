//! Tiles by themselves: however many lanes have a row, its sum has the bits of the documented tree. Sums of f32 are looked at
//! where they are made, since few 16-bit results show their last bits.

use cuda_std::emulator::{Buffer, Kernel, Launch, launch};
use cuda_std::ext::Global;
use cuda_std::kernel;
use cuda_std::warp::lane_id;
use kernels_gpu::element::F32;
use kernels_gpu::exp::{Half, Short};
use kernels_gpu::options::Options;
use kernels_gpu::tile::{Row, Tile};
use warp_softmax_tests::parameter::pointer;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::reference;

macro_rules! sums_of_rows {
    ($($name:ident: $lanes:literal x $steps:literal;)*) => {
        $(
            /// The sum of each group's row, by two accuracies of which neither has pairs.
            ///
            /// # Safety
            ///
            /// `x` has a row of `cols` elements for each group of lanes, `sums` two elements; `cols` is at most the group's.
            #[kernel]
            unsafe fn $name(x: *const f32, sums: *mut f32, cols: u32) {
                let (group, options) = (lane_id() / $lanes, Options::default());
                // SAFETY: in-bounds: the caller's.
                let row = unsafe {
                    Row::<F32>::new(Global::new(x).at(u64::from(group * cols)), cols)
                };
                let mut tile = Tile::<$lanes, $steps, 4>::load(row, 0, &options);
                let max = tile.max();
                let half = tile.clone().exponentiate::<Half>(max);
                let short = tile.exponentiate::<Short>(max);
                if lane_id() == group * $lanes {
                    // SAFETY: in-bounds: the caller's.
                    unsafe {
                        let to = Global::new_mut(sums).at(u64::from(2 * group));
                        to.store(half.sum.hi);
                        to.at(1).store(short.sum.hi);
                    }
                }
            }
        )*

        /// Each with its lanes and the vectors that a lane has.
        const KERNELS: &[(Kernel, usize, usize)] = &[$(($name::KERNEL, $lanes, $steps)),*];
    };
}

sums_of_rows! {
    one_lane: 1 x 16;
    two_lanes: 2 x 16;
    four_lanes: 4 x 8;
    eight_lanes: 8 x 8;
    sixteen_lanes: 16 x 4;
    sixteen_lanes_more: 16 x 8;
    a_warp_of_one_vector: 32 x 1;
    a_warp_of_three: 32 x 3;
    a_warp_of_four: 32 x 4;
    a_warp_of_eight: 32 x 8;
}

#[test]
fn sums_are_those_of_the_tree_whatever_the_lanes() {
    let mut random = Random::new(3);
    for &(ref kernel, lanes, steps) in KERNELS {
        let most = 4 * lanes * steps;
        for cols in [1, 3, most / 2 + 1, most - 1, most] {
            let rows = 32 / lanes;
            let x: Vec<f32> = (0..rows * cols).map(|_| random.normal() as f32).collect();
            let mut sums = vec![0.0f32; 2 * rows];
            let (x_address, y_address) = (
                x.as_ptr().expose_provenance(),
                sums.as_mut_ptr().expose_provenance(),
            );
            let buffer = |address: usize, elems: usize, writable| Buffer {
                address: address as u64,
                bytes: 4 * elems as u64,
                writable,
            };
            let shape = Launch {
                grid: 1,
                block: 32,
                cluster: 1,
                shared_bytes: 0,
                buffers: &[
                    buffer(x_address, x.len(), false),
                    buffer(y_address, sums.len(), true),
                ],
            };
            let count = cols as u32;
            let parameters = [pointer(&x_address), pointer(&y_address), pointer(&count)];
            // SAFETY: parameters: of the kernel's types; buffers: both live; contract: a row and two sums a group.
            unsafe { launch(kernel, &shape, &parameters) }
                .unwrap_or_else(|fault| panic!("{fault}"));
            for (row, sums) in x.chunks(cols).zip(sums.chunks(2)) {
                let expected = [
                    reference::partial::<Half>(row, 4).sum.hi,
                    reference::partial::<Short>(row, 4).sum.hi,
                ];
                assert_eq!(sums, expected, "{}, {cols} columns", kernel.name);
            }
        }
    }
}
