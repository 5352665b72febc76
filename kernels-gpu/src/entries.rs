//! The table of kernels: one line makes one entry point, and on the host its place in the registry.
//!
//! A line reads `way symbol: input => output, lanes x steps x elements a vector, most threads a
//! block / blocks an SM has at least | the same before sm_90`, where the compiler would spill registers otherwise.
//! All kernels take the same parameters: input, output, number of rows, row length, the call's options, and where the rows
//! lie. Those of attention take more: masks, lengths, slopes, sinks, where
//! logarithms of sums go, and what of all this there is.

use cuda_std::ext::Global;
use cuda_std::kernel;

use crate::element::{Bf16, Element, F16, F32};
use crate::options::Options;
use crate::row::RowLayout;
use crate::scores::{Operands, Scores};
use crate::spread::QUARTERS;
use crate::{attention, chunked, exchange, exp, packed, spread, stream, warp};

macro_rules! entries {
    ($($way:ident $name:ident: $in:ty => $out:ty, $lanes:literal x $steps:literal x $v:tt, $threads:literal $(/ $blocks:literal $(| $before:literal)?)?;)*) => {
        $(entries!(@where $way $name $in, $out, $lanes, $steps, $v, [max_threads = $threads $(, min_blocks = $blocks $(, before = $before)?)?]);)*

        /// Every kernel, for the emulator.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static REGISTRY: &[cuda_std::emulator::Kernel] = &[$($name::KERNEL),*];
    };
    // Clusters are there from sm_90 on.
    (@where split $($rest:tt)*) => { entries!(@sm_90 split $($rest)*); };
    (@where split_fast $($rest:tt)*) => { entries!(@sm_90 split_fast $($rest)*); };
    (@where split_spread $($rest:tt)*) => { entries!(@sm_90 split_spread $($rest)*); };
    (@where split_spread_fast $($rest:tt)*) => { entries!(@sm_90 split_spread_fast $($rest)*); };
    (@where split_parked $($rest:tt)*) => { entries!(@sm_90 split_parked $($rest)*); };
    (@where split_parked_fast $($rest:tt)*) => { entries!(@sm_90 split_parked_fast $($rest)*); };
    (@where split_staged $($rest:tt)*) => { entries!(@sm_90 split_staged $($rest)*); };
    (@where split_staged_fast $($rest:tt)*) => { entries!(@sm_90 split_staged_fast $($rest)*); };
    (@where attention_split $($rest:tt)*) => { entries!(@sm_90 attention_split $($rest)*); };
    (@where attention_split_any $($rest:tt)*) => { entries!(@sm_90 attention_split_any $($rest)*); };
    (@where attention_split_log $($rest:tt)*) => { entries!(@sm_90 attention_split_log $($rest)*); };
    (@where $way:ident $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:tt, [max_threads = $threads:literal, min_blocks = $blocks:literal, before = $before:literal]) => {
        entries!(@sm_90 $way $name $in, $out, $lanes, $steps, $v, [max_threads = $threads, min_blocks = $blocks]);
        entries!(@entry [#[cfg(all(target_arch = "nvptx64", not(target_feature = "sm_90")))]] $way $name $in, $out, $lanes, $steps, $v, [max_threads = $threads, min_blocks = $before]);
    };
    (@where $($rest:tt)*) => { entries!(@entry [] $($rest)*); };
    (@entry $where:tt attention_warp $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        entries!(@attention $where $bounds $name rows [$in, $out, <$out as Element>::Accuracy, exchange::Alone, false, false, $lanes, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_block $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        const _: () = assert!(!attention::block_walks(size_of::<<$in as Element>::Word>(), true));
        entries!(@attention $where $bounds $name rows [$in, $out, <$out as Element>::Accuracy, exchange::Block, false, false, $lanes, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_walk $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        const _: () = assert!(attention::block_walks(size_of::<<$in as Element>::Word>(), true));
        entries!(@attention $where $bounds $name rows [$in, $out, <$out as Element>::Accuracy, exchange::BlockInTurns, false, false, $lanes, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_block_any $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        const _: () = assert!(attention::block_walks(size_of::<<$in as Element>::Word>(), false));
        entries!(@attention $where $bounds $name rows [$in, $out, <$out as Element>::Accuracy, exchange::BlockInTurns, true, false, $lanes, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_block_log $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        const _: () = assert!(attention::block_walks(size_of::<<$in as Element>::Word>(), false));
        entries!(@attention $where $bounds $name rows [$in, $out, exp::Full, exchange::BlockInTurns, true, true, $lanes, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_split $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        entries!(@attention $where $bounds $name rows [$in, $out, <$out as Element>::Accuracy, exchange::Cluster, false, false, $lanes, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_split_any $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        entries!(@attention $where $bounds $name rows [$in, $out, <$out as Element>::Accuracy, exchange::Cluster, true, false, $lanes, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_split_log $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        entries!(@attention $where $bounds $name rows [$in, $out, exp::Full, exchange::Cluster, true, true, $lanes, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_stream_any $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        entries!(@attention $where $bounds $name stream [$in, $out, <$out as Element>::Accuracy, false, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@entry $where:tt attention_stream_log $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $bounds:tt) => {
        entries!(@attention $where $bounds $name stream [$in, $out, exp::Full, true, $steps, $v] $in, $out, $lanes, $steps, $v);
    };
    (@sm_90 $($rest:tt)*) => {
        entries!(@entry [#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))]] $($rest)*);
    };
    (@entry [$($where:tt)*] $way:ident $name:ident $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:tt, [$($bounds:tt)*]) => {
        $($where)*
        /// Softmax of rows; the table's line says of which types, and how a row is covered.
        ///
        /// # Safety
        ///
        /// As the function of the way asks.
        #[kernel($($bounds)*)]
        pub unsafe fn $name(
            x: *const <$in as Element>::Word,
            y: *mut <$out as Element>::Word,
            rows: u32,
            cols: u32,
            options: Options,
            layout: RowLayout,
        ) {
            options.begin();
            // SAFETY: the caller's obligations are those of the way.
            unsafe {
                let (x, y) = (Global::new(x), Global::new_mut(y));
                entries!(@call $way $in, $out, $lanes, $steps, $v, x, y, rows, cols, layout, options);
            }
        }
    };
    (@attention [$($where:tt)*] [$($bounds:tt)*] $name:ident $function:ident [$($generics:tt)*] $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal) => {
        $($where)*
        /// Softmax of attention scores; the table's line says of which types, and how a row is covered.
        ///
        /// # Safety
        ///
        /// As the function of the way asks.
        #[kernel($($bounds)*)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe fn $name(
            x: *const <$in as Element>::Word,
            y: *mut <$out as Element>::Word,
            rows: u32,
            cols: u32,
            options: Options,
            layout: RowLayout,
            bias: *const u8,
            keep: *const u8,
            hide: *const u8,
            lengths: *const u32,
            slopes: *const f32,
            sinks: *const f32,
            sums: *mut u8,
            scores: Scores,
        ) {
            const { assert!($lanes * $steps * $v == if $lanes == 16 { 512 } else { 1024 }) };
            options.begin();
            // SAFETY: the caller's obligations are those of the way.
            unsafe {
                let (x, y) = (Global::new(x), Global::new_mut(y));
                let operands = Operands {
                    bias: Global::new(bias),
                    keep: Global::new(keep),
                    hide: Global::new(hide),
                    lengths: Global::new(lengths),
                    slopes: Global::new(slopes),
                    sinks: Global::new(sinks),
                    sums: Global::new_mut(sums),
                };
                entries!(@attend $function [$($generics)*] x, y, rows, cols, layout, options, operands, scores);
            }
        }
    };
    (@attend rows [$($generics:tt)*] $x:ident, $y:ident, $rows:ident, $cols:ident, $layout:ident, $options:ident, $operands:ident, $scores:ident) => {
        attention::rows::<$($generics)*>($x, $y, $rows, $cols, &$layout, &$options, &$operands, &$scores)
    };
    (@attend stream [$($generics:tt)*] $x:ident, $y:ident, $rows:ident, $cols:ident, $layout:ident, $options:ident, $operands:ident, $scores:ident) => {{
        // The grid has a block a row.
        let _ = $rows;
        attention::stream::<$($generics)*>($x, $y, $cols, &$layout, &$options, &$operands, &$scores)
    }};
    (@call warp $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal,
     $x:ident, $y:ident, $rows:ident, $cols:ident, $layout:ident, $options:ident) => {
        warp::softmax::<$in, $out, $lanes, $steps, $v>($x, $y, $rows, $cols, &$layout, &$options)
    };
    (@call packed $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal,
     $x:ident, $y:ident, $rows:ident, $cols:ident, $layout:ident, $options:ident) => {{
        // Packed rows need no layout.
        let _ = &$layout;
        packed::softmax::<$in, $out, $lanes, $steps, $v>($x, $y, $rows, $cols, &$options)
    }};
    (@call stream $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal,
     $x:ident, $y:ident, $rows:ident, $cols:ident, $layout:ident, $options:ident) => {{
        const { assert!($lanes == 32) };
        // The grid has a block a row.
        let _ = $rows;
        stream::softmax::<$in, $out, $steps, $v>($x, $y, $cols, &$layout, &$options)
    }};
    (@call block $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::in_registers [$in, $out, <$out as Element>::Accuracy, exchange::Block, false, $steps, $v], $lanes, $($arguments)*)
    };
    (@call staged $in:ty, $out:ty, $lanes:literal, $steps:literal, 4, $($arguments:tt)*) => {
        entries!(@cooperative chunked::staged [$in, $out, <$out as Element>::Accuracy, exchange::Block, $steps, 4], $lanes, $($arguments)*)
    };
    (@call staged $in:ty, $out:ty, $lanes:literal, $steps:literal, 8, $($arguments:tt)*) => {
        entries!(@cooperative chunked::in_registers [$in, $out, <$out as Element>::Accuracy, exchange::Block, true, $steps, 8], $lanes, $($arguments)*)
    };
    (@call staged_fast $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::staged [$in, $out, exp::Fast, exchange::Block, $steps, $v], $lanes, $($arguments)*)
    };
    (@call split $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::in_registers [$in, $out, <$out as Element>::Accuracy, exchange::Cluster, false, $steps, $v], $lanes, $($arguments)*)
    };
    (@call split_staged $in:ty, $out:ty, $lanes:literal, $steps:literal, 4, $($arguments:tt)*) => {
        entries!(@cooperative chunked::staged [$in, $out, <$out as Element>::Accuracy, exchange::Cluster, $steps, 4], $lanes, $($arguments)*)
    };
    (@call split_staged $in:ty, $out:ty, $lanes:literal, $steps:literal, 8, $($arguments:tt)*) => {
        entries!(@cooperative chunked::in_registers [$in, $out, <$out as Element>::Accuracy, exchange::Cluster, true, $steps, 8], $lanes, $($arguments)*)
    };
    (@call split_staged_fast $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::staged [$in, $out, exp::Fast, exchange::Cluster, $steps, $v], $lanes, $($arguments)*)
    };
    (@call split_fast $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::in_registers [$in, $out, exp::Fast, exchange::Cluster, false, $steps, $v], $lanes, $($arguments)*)
    };
    (@call spread $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative spread::softmax [$in, $out, <$out as Element>::Accuracy, exchange::Block<QUARTERS>, $steps, $v], $lanes, $($arguments)*)
    };
    (@call split_spread $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative spread::softmax [$in, $out, <$out as Element>::Accuracy, exchange::Cluster<QUARTERS>, $steps, $v], $lanes, $($arguments)*)
    };
    (@call split_spread_fast $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative spread::softmax [$in, $out, exp::Fast, exchange::Cluster<QUARTERS>, $steps, $v], $lanes, $($arguments)*)
    };
    (@call parked $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::parked [$in, $out, <$out as Element>::Accuracy, exchange::Block, $steps, $v], $lanes, $($arguments)*)
    };
    (@call parked_fast $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::parked [$in, $out, exp::Fast, exchange::Block, $steps, $v], $lanes, $($arguments)*)
    };
    (@call split_parked $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::parked [$in, $out, <$out as Element>::Accuracy, exchange::Cluster, $steps, $v], $lanes, $($arguments)*)
    };
    (@call split_parked_fast $in:ty, $out:ty, $lanes:literal, $steps:literal, $v:literal, $($arguments:tt)*) => {
        entries!(@cooperative chunked::parked [$in, $out, exp::Fast, exchange::Cluster, $steps, $v], $lanes, $($arguments)*)
    };
    (@cooperative $module:ident::$algorithm:ident [$($generics:tt)*], $lanes:literal,
     $x:ident, $y:ident, $rows:ident, $cols:ident, $layout:ident, $options:ident) => {{
        const { assert!($lanes == 32) };
        // The grid has as many rows as the call.
        let _ = $rows;
        $module::$algorithm::<$($generics)*>($x, $y, $cols, &$layout, &$options)
    }};
}

entries! {
    warp softmax_warp_1x1_f32_f32: F32 => F32, 1 x 1 x 4, 128;
    warp softmax_warp_1x2_f32_f32: F32 => F32, 1 x 2 x 4, 128;
    warp softmax_warp_2x2_f32_f32: F32 => F32, 2 x 2 x 4, 128;
    warp softmax_warp_4x2_f32_f32: F32 => F32, 4 x 2 x 4, 128;
    warp softmax_warp_8x2_f32_f32: F32 => F32, 8 x 2 x 4, 128;
    warp softmax_warp_16x2_f32_f32: F32 => F32, 16 x 2 x 4, 128;
    warp softmax_warp_32x2_f32_f32: F32 => F32, 32 x 2 x 4, 64;
    warp softmax_warp_32x4_f32_f32: F32 => F32, 32 x 4 x 4, 64;
    warp softmax_warp_32x8_f32_f32: F32 => F32, 32 x 8 x 4, 32;
    packed softmax_packed_1x9_f32_f32: F32 => F32, 1 x 9 x 4, 64;
    packed softmax_packed_1x16_f32_f32: F32 => F32, 1 x 16 x 4, 64;
    packed softmax_packed_4x8_f32_f32: F32 => F32, 4 x 8 x 4, 64;
    packed softmax_packed_8x8_f32_f32: F32 => F32, 8 x 8 x 4, 64;
    packed softmax_packed_16x8_f32_f32: F32 => F32, 16 x 8 x 4, 64;
    block softmax_block_f32_f32: F32 => F32, 32 x 8 x 4, 1024;
    spread softmax_spread_f32_f32: F32 => F32, 32 x 2 x 4, 1024;
    staged softmax_staged_f32_f32: F32 => F32, 32 x 8 x 4, 768;
    split softmax_split_f32_f32: F32 => F32, 32 x 8 x 4, 512 / 2;
    split_spread softmax_split_spread_f32_f32: F32 => F32, 32 x 2 x 4, 1024;
    parked softmax_parked_f32_f32: F32 => F32, 32 x 8 x 4, 512;
    split_parked softmax_split_parked_f32_f32: F32 => F32, 32 x 8 x 4, 256 / 4;
    split_staged softmax_split_staged_f32_f32: F32 => F32, 32 x 8 x 4, 256 / 4;
    stream softmax_stream_f32_f32: F32 => F32, 32 x 8 x 4, 1024;
    warp softmax_warp_1x1_f16_f16: F16 => F16, 1 x 1 x 8, 128;
    warp softmax_warp_1x2_f16_f16: F16 => F16, 1 x 2 x 8, 128;
    warp softmax_warp_2x2_f16_f16: F16 => F16, 2 x 2 x 8, 128;
    warp softmax_warp_4x2_f16_f16: F16 => F16, 4 x 2 x 8, 128;
    warp softmax_warp_8x2_f16_f16: F16 => F16, 8 x 2 x 8, 128;
    warp softmax_warp_16x2_f16_f16: F16 => F16, 16 x 2 x 8, 128;
    warp softmax_warp_32x2_f16_f16: F16 => F16, 32 x 2 x 8, 64;
    warp softmax_warp_32x4_f16_f16: F16 => F16, 32 x 4 x 8, 64;
    packed softmax_packed_1x1_f16_f16: F16 => F16, 1 x 1 x 8, 64;
    packed softmax_packed_1x2_f16_f16: F16 => F16, 1 x 2 x 8, 64;
    packed softmax_packed_1x3_f16_f16: F16 => F16, 1 x 3 x 8, 64;
    packed softmax_packed_1x4_f16_f16: F16 => F16, 1 x 4 x 8, 64;
    packed softmax_packed_1x5_f16_f16: F16 => F16, 1 x 5 x 8, 64;
    packed softmax_packed_1x6_f16_f16: F16 => F16, 1 x 6 x 8, 64;
    packed softmax_packed_1x7_f16_f16: F16 => F16, 1 x 7 x 8, 64;
    packed softmax_packed_1x8_f16_f16: F16 => F16, 1 x 8 x 8, 64;
    packed softmax_packed_4x4_f16_f16: F16 => F16, 4 x 4 x 8, 64;
    packed softmax_packed_8x4_f16_f16: F16 => F16, 8 x 4 x 8, 64;
    packed softmax_packed_16x4_f16_f16: F16 => F16, 16 x 4 x 8, 64;
    packed softmax_packed_32x4_f16_f16: F16 => F16, 32 x 4 x 8, 64;
    block softmax_block_f16_f16: F16 => F16, 32 x 4 x 8, 1024;
    spread softmax_spread_f16_f16: F16 => F16, 32 x 1 x 8, 1024;
    staged softmax_staged_f16_f16: F16 => F16, 32 x 4 x 8, 768;
    split softmax_split_f16_f16: F16 => F16, 32 x 4 x 8, 512;
    split_spread softmax_split_spread_f16_f16: F16 => F16, 32 x 1 x 8, 1024;
    split_spread_fast softmax_split_spread_fast_f16_f16: F16 => F16, 32 x 1 x 8, 1024;
    split_fast softmax_split_fast_f16_f16: F16 => F16, 32 x 4 x 8, 512;
    parked softmax_parked_f16_f16: F16 => F16, 32 x 4 x 8, 512;
    split_parked softmax_split_parked_f16_f16: F16 => F16, 32 x 4 x 8, 256 / 4;
    parked_fast softmax_parked_fast_f16_f16: F16 => F16, 32 x 4 x 8, 256 / 5 | 4;
    split_parked_fast softmax_split_parked_fast_f16_f16: F16 => F16, 32 x 4 x 8, 256 / 4;
    split_staged softmax_split_staged_f16_f16: F16 => F16, 32 x 4 x 8, 512;
    staged_fast softmax_staged_fast_f16_f16: F16 => F16, 32 x 4 x 8, 256 / 4;
    split_staged_fast softmax_split_staged_fast_f16_f16: F16 => F16, 32 x 4 x 8, 256 / 4;
    stream softmax_stream_f16_f16: F16 => F16, 32 x 4 x 8, 1024;
    warp softmax_warp_1x1_bf16_bf16: Bf16 => Bf16, 1 x 1 x 8, 128;
    warp softmax_warp_1x2_bf16_bf16: Bf16 => Bf16, 1 x 2 x 8, 128;
    warp softmax_warp_2x2_bf16_bf16: Bf16 => Bf16, 2 x 2 x 8, 128;
    warp softmax_warp_4x2_bf16_bf16: Bf16 => Bf16, 4 x 2 x 8, 128;
    warp softmax_warp_8x2_bf16_bf16: Bf16 => Bf16, 8 x 2 x 8, 128;
    warp softmax_warp_16x2_bf16_bf16: Bf16 => Bf16, 16 x 2 x 8, 128;
    warp softmax_warp_32x2_bf16_bf16: Bf16 => Bf16, 32 x 2 x 8, 64;
    warp softmax_warp_32x4_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 64;
    packed softmax_packed_1x1_bf16_bf16: Bf16 => Bf16, 1 x 1 x 8, 64;
    packed softmax_packed_1x2_bf16_bf16: Bf16 => Bf16, 1 x 2 x 8, 64;
    packed softmax_packed_1x3_bf16_bf16: Bf16 => Bf16, 1 x 3 x 8, 64;
    packed softmax_packed_1x4_bf16_bf16: Bf16 => Bf16, 1 x 4 x 8, 64;
    packed softmax_packed_1x5_bf16_bf16: Bf16 => Bf16, 1 x 5 x 8, 64;
    packed softmax_packed_1x6_bf16_bf16: Bf16 => Bf16, 1 x 6 x 8, 64;
    packed softmax_packed_1x7_bf16_bf16: Bf16 => Bf16, 1 x 7 x 8, 64;
    packed softmax_packed_1x8_bf16_bf16: Bf16 => Bf16, 1 x 8 x 8, 64;
    packed softmax_packed_4x4_bf16_bf16: Bf16 => Bf16, 4 x 4 x 8, 64;
    packed softmax_packed_8x4_bf16_bf16: Bf16 => Bf16, 8 x 4 x 8, 64;
    packed softmax_packed_16x4_bf16_bf16: Bf16 => Bf16, 16 x 4 x 8, 64;
    packed softmax_packed_32x4_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 64;
    block softmax_block_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 1024;
    spread softmax_spread_bf16_bf16: Bf16 => Bf16, 32 x 1 x 8, 1024;
    staged softmax_staged_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 768;
    split softmax_split_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512;
    split_spread softmax_split_spread_bf16_bf16: Bf16 => Bf16, 32 x 1 x 8, 1024;
    split_spread_fast softmax_split_spread_fast_bf16_bf16: Bf16 => Bf16, 32 x 1 x 8, 1024;
    split_fast softmax_split_fast_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512;
    parked softmax_parked_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512;
    split_parked softmax_split_parked_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 256 / 4;
    parked_fast softmax_parked_fast_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 256 / 5 | 4;
    split_parked_fast softmax_split_parked_fast_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 256 / 4;
    split_staged softmax_split_staged_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512;
    staged_fast softmax_staged_fast_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 256 / 4;
    split_staged_fast softmax_split_staged_fast_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 256 / 4;
    stream softmax_stream_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 1024;
    warp softmax_warp_1x1_f16_f32: F16 => F32, 1 x 1 x 8, 128;
    warp softmax_warp_1x2_f16_f32: F16 => F32, 1 x 2 x 8, 128;
    warp softmax_warp_2x2_f16_f32: F16 => F32, 2 x 2 x 8, 128;
    warp softmax_warp_4x2_f16_f32: F16 => F32, 4 x 2 x 8, 128;
    warp softmax_warp_8x2_f16_f32: F16 => F32, 8 x 2 x 8, 128;
    warp softmax_warp_16x2_f16_f32: F16 => F32, 16 x 2 x 8, 128;
    warp softmax_warp_32x2_f16_f32: F16 => F32, 32 x 2 x 8, 64;
    warp softmax_warp_32x4_f16_f32: F16 => F32, 32 x 4 x 8, 64;
    packed softmax_packed_1x1_f16_f32: F16 => F32, 1 x 1 x 8, 64;
    packed softmax_packed_1x2_f16_f32: F16 => F32, 1 x 2 x 8, 64;
    packed softmax_packed_1x3_f16_f32: F16 => F32, 1 x 3 x 8, 64;
    packed softmax_packed_1x4_f16_f32: F16 => F32, 1 x 4 x 8, 64;
    packed softmax_packed_1x5_f16_f32: F16 => F32, 1 x 5 x 8, 64;
    packed softmax_packed_1x6_f16_f32: F16 => F32, 1 x 6 x 8, 64;
    packed softmax_packed_1x7_f16_f32: F16 => F32, 1 x 7 x 8, 64;
    packed softmax_packed_1x8_f16_f32: F16 => F32, 1 x 8 x 8, 64;
    packed softmax_packed_4x4_f16_f32: F16 => F32, 4 x 4 x 8, 64;
    packed softmax_packed_8x4_f16_f32: F16 => F32, 8 x 4 x 8, 64;
    packed softmax_packed_16x4_f16_f32: F16 => F32, 16 x 4 x 8, 64;
    packed softmax_packed_32x4_f16_f32: F16 => F32, 32 x 4 x 8, 64;
    block softmax_block_f16_f32: F16 => F32, 32 x 4 x 8, 1024;
    spread softmax_spread_f16_f32: F16 => F32, 32 x 1 x 8, 1024;
    staged softmax_staged_f16_f32: F16 => F32, 32 x 4 x 8, 768;
    split softmax_split_f16_f32: F16 => F32, 32 x 4 x 8, 512;
    split_spread softmax_split_spread_f16_f32: F16 => F32, 32 x 1 x 8, 1024;
    split_staged softmax_split_staged_f16_f32: F16 => F32, 32 x 4 x 8, 512;
    stream softmax_stream_f16_f32: F16 => F32, 32 x 4 x 8, 1024;
    warp softmax_warp_1x1_bf16_f32: Bf16 => F32, 1 x 1 x 8, 128;
    warp softmax_warp_1x2_bf16_f32: Bf16 => F32, 1 x 2 x 8, 128;
    warp softmax_warp_2x2_bf16_f32: Bf16 => F32, 2 x 2 x 8, 128;
    warp softmax_warp_4x2_bf16_f32: Bf16 => F32, 4 x 2 x 8, 128;
    warp softmax_warp_8x2_bf16_f32: Bf16 => F32, 8 x 2 x 8, 128;
    warp softmax_warp_16x2_bf16_f32: Bf16 => F32, 16 x 2 x 8, 128;
    warp softmax_warp_32x2_bf16_f32: Bf16 => F32, 32 x 2 x 8, 64;
    warp softmax_warp_32x4_bf16_f32: Bf16 => F32, 32 x 4 x 8, 64;
    packed softmax_packed_1x1_bf16_f32: Bf16 => F32, 1 x 1 x 8, 64;
    packed softmax_packed_1x2_bf16_f32: Bf16 => F32, 1 x 2 x 8, 64;
    packed softmax_packed_1x3_bf16_f32: Bf16 => F32, 1 x 3 x 8, 64;
    packed softmax_packed_1x4_bf16_f32: Bf16 => F32, 1 x 4 x 8, 64;
    packed softmax_packed_1x5_bf16_f32: Bf16 => F32, 1 x 5 x 8, 64;
    packed softmax_packed_1x6_bf16_f32: Bf16 => F32, 1 x 6 x 8, 64;
    packed softmax_packed_1x7_bf16_f32: Bf16 => F32, 1 x 7 x 8, 64;
    packed softmax_packed_1x8_bf16_f32: Bf16 => F32, 1 x 8 x 8, 64;
    packed softmax_packed_4x4_bf16_f32: Bf16 => F32, 4 x 4 x 8, 64;
    packed softmax_packed_8x4_bf16_f32: Bf16 => F32, 8 x 4 x 8, 64;
    packed softmax_packed_16x4_bf16_f32: Bf16 => F32, 16 x 4 x 8, 64;
    packed softmax_packed_32x4_bf16_f32: Bf16 => F32, 32 x 4 x 8, 64;
    block softmax_block_bf16_f32: Bf16 => F32, 32 x 4 x 8, 1024;
    spread softmax_spread_bf16_f32: Bf16 => F32, 32 x 1 x 8, 1024;
    staged softmax_staged_bf16_f32: Bf16 => F32, 32 x 4 x 8, 768;
    split softmax_split_bf16_f32: Bf16 => F32, 32 x 4 x 8, 512;
    split_spread softmax_split_spread_bf16_f32: Bf16 => F32, 32 x 1 x 8, 1024;
    split_staged softmax_split_staged_bf16_f32: Bf16 => F32, 32 x 4 x 8, 512;
    stream softmax_stream_bf16_f32: Bf16 => F32, 32 x 4 x 8, 1024;
    warp softmax_warp_1x1_f32_f16: F32 => F16, 1 x 1 x 4, 128;
    warp softmax_warp_1x2_f32_f16: F32 => F16, 1 x 2 x 4, 128;
    warp softmax_warp_2x2_f32_f16: F32 => F16, 2 x 2 x 4, 128;
    warp softmax_warp_4x2_f32_f16: F32 => F16, 4 x 2 x 4, 128;
    warp softmax_warp_8x2_f32_f16: F32 => F16, 8 x 2 x 4, 128;
    warp softmax_warp_16x2_f32_f16: F32 => F16, 16 x 2 x 4, 128;
    warp softmax_warp_32x2_f32_f16: F32 => F16, 32 x 2 x 4, 64;
    warp softmax_warp_32x4_f32_f16: F32 => F16, 32 x 4 x 4, 64;
    warp softmax_warp_32x8_f32_f16: F32 => F16, 32 x 8 x 4, 32;
    packed softmax_packed_1x9_f32_f16: F32 => F16, 1 x 9 x 4, 64;
    packed softmax_packed_1x16_f32_f16: F32 => F16, 1 x 16 x 4, 64;
    packed softmax_packed_4x8_f32_f16: F32 => F16, 4 x 8 x 4, 64;
    packed softmax_packed_8x8_f32_f16: F32 => F16, 8 x 8 x 4, 64;
    packed softmax_packed_16x8_f32_f16: F32 => F16, 16 x 8 x 4, 64;
    block softmax_block_f32_f16: F32 => F16, 32 x 8 x 4, 1024;
    spread softmax_spread_f32_f16: F32 => F16, 32 x 2 x 4, 1024;
    staged softmax_staged_f32_f16: F32 => F16, 32 x 8 x 4, 768;
    split softmax_split_f32_f16: F32 => F16, 32 x 8 x 4, 512 / 1;
    split_spread softmax_split_spread_f32_f16: F32 => F16, 32 x 2 x 4, 1024;
    split_staged softmax_split_staged_f32_f16: F32 => F16, 32 x 8 x 4, 256 / 4;
    stream softmax_stream_f32_f16: F32 => F16, 32 x 8 x 4, 1024;
    warp softmax_warp_1x1_f32_bf16: F32 => Bf16, 1 x 1 x 4, 128;
    warp softmax_warp_1x2_f32_bf16: F32 => Bf16, 1 x 2 x 4, 128;
    warp softmax_warp_2x2_f32_bf16: F32 => Bf16, 2 x 2 x 4, 128;
    warp softmax_warp_4x2_f32_bf16: F32 => Bf16, 4 x 2 x 4, 128;
    warp softmax_warp_8x2_f32_bf16: F32 => Bf16, 8 x 2 x 4, 128;
    warp softmax_warp_16x2_f32_bf16: F32 => Bf16, 16 x 2 x 4, 128;
    warp softmax_warp_32x2_f32_bf16: F32 => Bf16, 32 x 2 x 4, 64;
    warp softmax_warp_32x4_f32_bf16: F32 => Bf16, 32 x 4 x 4, 64;
    warp softmax_warp_32x8_f32_bf16: F32 => Bf16, 32 x 8 x 4, 32;
    packed softmax_packed_1x9_f32_bf16: F32 => Bf16, 1 x 9 x 4, 64;
    packed softmax_packed_1x16_f32_bf16: F32 => Bf16, 1 x 16 x 4, 64;
    packed softmax_packed_4x8_f32_bf16: F32 => Bf16, 4 x 8 x 4, 64;
    packed softmax_packed_8x8_f32_bf16: F32 => Bf16, 8 x 8 x 4, 64;
    packed softmax_packed_16x8_f32_bf16: F32 => Bf16, 16 x 8 x 4, 64;
    block softmax_block_f32_bf16: F32 => Bf16, 32 x 8 x 4, 1024;
    spread softmax_spread_f32_bf16: F32 => Bf16, 32 x 2 x 4, 1024;
    staged softmax_staged_f32_bf16: F32 => Bf16, 32 x 8 x 4, 768;
    split softmax_split_f32_bf16: F32 => Bf16, 32 x 8 x 4, 512 / 1;
    split_spread softmax_split_spread_f32_bf16: F32 => Bf16, 32 x 2 x 4, 1024;
    split_staged softmax_split_staged_f32_bf16: F32 => Bf16, 32 x 8 x 4, 256 / 4;
    stream softmax_stream_f32_bf16: F32 => Bf16, 32 x 8 x 4, 1024;
    attention_warp attention_warp_f32_f32: F32 => F32, 16 x 8 x 4, 32 / 24;
    attention_block attention_block_f32_f32: F32 => F32, 32 x 8 x 4, 1024 / 1;
    attention_split attention_split_f32_f32: F32 => F32, 32 x 8 x 4, 640 / 1;
    attention_block_log attention_block_log_f32_f32: F32 => F32, 32 x 8 x 4, 512 / 1;
    attention_split_log attention_split_log_f32_f32: F32 => F32, 32 x 8 x 4, 512 / 1;
    attention_stream_log attention_stream_log_f32_f32: F32 => F32, 32 x 8 x 4, 512 / 1;
    attention_warp attention_warp_f16_f16: F16 => F16, 16 x 4 x 8, 32 / 25;
    attention_walk attention_block_f16_f16: F16 => F16, 32 x 4 x 8, 1024 / 1;
    attention_split attention_split_f16_f16: F16 => F16, 32 x 4 x 8, 768 / 1;
    attention_block_any attention_block_any_f16_f16: F16 => F16, 32 x 4 x 8, 512 / 1;
    attention_split_any attention_split_any_f16_f16: F16 => F16, 32 x 4 x 8, 512 / 1;
    attention_stream_any attention_stream_any_f16_f16: F16 => F16, 32 x 4 x 8, 512 / 1;
    attention_block_log attention_block_log_f16_f16: F16 => F16, 32 x 4 x 8, 512 / 1;
    attention_split_log attention_split_log_f16_f16: F16 => F16, 32 x 4 x 8, 512 / 1;
    attention_stream_log attention_stream_log_f16_f16: F16 => F16, 32 x 4 x 8, 512 / 1;
    attention_warp attention_warp_bf16_bf16: Bf16 => Bf16, 16 x 4 x 8, 32 / 25;
    attention_walk attention_block_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 1024 / 1;
    attention_split attention_split_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 768 / 1;
    attention_block_any attention_block_any_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512 / 1;
    attention_split_any attention_split_any_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512 / 1;
    attention_stream_any attention_stream_any_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512 / 1;
    attention_block_log attention_block_log_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512 / 1;
    attention_split_log attention_split_log_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512 / 1;
    attention_stream_log attention_stream_log_bf16_bf16: Bf16 => Bf16, 32 x 4 x 8, 512 / 1;
    attention_warp attention_warp_f16_f32: F16 => F32, 16 x 4 x 8, 32 / 24;
    attention_walk attention_block_f16_f32: F16 => F32, 32 x 4 x 8, 896 / 1;
    attention_split attention_split_f16_f32: F16 => F32, 32 x 4 x 8, 640 / 1;
    attention_block_log attention_block_log_f16_f32: F16 => F32, 32 x 4 x 8, 512 / 1;
    attention_split_log attention_split_log_f16_f32: F16 => F32, 32 x 4 x 8, 512 / 1;
    attention_stream_log attention_stream_log_f16_f32: F16 => F32, 32 x 4 x 8, 512 / 1;
    attention_warp attention_warp_bf16_f32: Bf16 => F32, 16 x 4 x 8, 32 / 24;
    attention_walk attention_block_bf16_f32: Bf16 => F32, 32 x 4 x 8, 896 / 1;
    attention_split attention_split_bf16_f32: Bf16 => F32, 32 x 4 x 8, 640 / 1;
    attention_block_log attention_block_log_bf16_f32: Bf16 => F32, 32 x 4 x 8, 512 / 1;
    attention_split_log attention_split_log_bf16_f32: Bf16 => F32, 32 x 4 x 8, 512 / 1;
    attention_stream_log attention_stream_log_bf16_f32: Bf16 => F32, 32 x 4 x 8, 512 / 1;
    attention_warp attention_warp_f32_f16: F32 => F16, 16 x 8 x 4, 32 / 25;
    attention_block attention_block_f32_f16: F32 => F16, 32 x 8 x 4, 1024 / 1;
    attention_split attention_split_f32_f16: F32 => F16, 32 x 8 x 4, 640 / 1;
    attention_block_any attention_block_any_f32_f16: F32 => F16, 32 x 8 x 4, 512 / 1;
    attention_split_any attention_split_any_f32_f16: F32 => F16, 32 x 8 x 4, 512 / 1;
    attention_stream_any attention_stream_any_f32_f16: F32 => F16, 32 x 8 x 4, 512 / 1;
    attention_block_log attention_block_log_f32_f16: F32 => F16, 32 x 8 x 4, 512 / 1;
    attention_split_log attention_split_log_f32_f16: F32 => F16, 32 x 8 x 4, 512 / 1;
    attention_stream_log attention_stream_log_f32_f16: F32 => F16, 32 x 8 x 4, 512 / 1;
    attention_warp attention_warp_f32_bf16: F32 => Bf16, 16 x 8 x 4, 32 / 25;
    attention_block attention_block_f32_bf16: F32 => Bf16, 32 x 8 x 4, 1024 / 1;
    attention_split attention_split_f32_bf16: F32 => Bf16, 32 x 8 x 4, 640 / 1;
    attention_block_any attention_block_any_f32_bf16: F32 => Bf16, 32 x 8 x 4, 512 / 1;
    attention_split_any attention_split_any_f32_bf16: F32 => Bf16, 32 x 8 x 4, 512 / 1;
    attention_stream_any attention_stream_any_f32_bf16: F32 => Bf16, 32 x 8 x 4, 512 / 1;
    attention_block_log attention_block_log_f32_bf16: F32 => Bf16, 32 x 8 x 4, 512 / 1;
    attention_split_log attention_split_log_f32_bf16: F32 => Bf16, 32 x 8 x 4, 512 / 1;
    attention_stream_log attention_stream_log_f32_bf16: F32 => Bf16, 32 x 8 x 4, 512 / 1;
}
