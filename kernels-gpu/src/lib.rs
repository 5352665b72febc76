//! Softmax kernels, for NVIDIA GPUs and for the emulator.
//!
//! | level | modules | who calls | valid in |
//! |---|---|---|---|
//! | ideas | [`element`], [`exp`], [`ln`], [`tanh`], [`online`], [`options`], [`row`], [`scores`] | a thread | that thread |
//! | cooperation | [`tile`], [`scored`], [`reduce`], [`stage`], [`exchange`] | whole warps or blocks | each says where |
//! | ways of covering a row | [`warp`], [`packed`], [`chunked`], [`spread`], [`stream`], [`attention`] | whole blocks | the row, in memory |
//! | entry points | [`entries`] | the host | |
//!
//! | way | row length | how |
//! |---|---|---|
//! | [`warp`] | up to 1,024 | a group of lanes a row, row in registers |
//! | [`packed`] | up to 512, of 16-bit inputs 1,024, of any alignment | as `warp`, adjacent rows, one or many at once, through shared memory |
//! | [`block`](chunked) | up to 32,768, aligned | a block a row, a chunk of 1,024 elements a warp, in registers |
//! | [`spread`] | up to 8,192, aligned | as `block`, each chunk by four warps |
//! | [`parked`](chunked) | what shared memory holds, aligned | a block a row, chunks in shared memory, each lane's vectors by themselves |
//! | [`staged`](chunked) | up to 32,768, of any alignment | a block a row, chunks through shared memory |
//! | [`split`](chunked) | up to 262,144, aligned | as `block`, with the blocks of a cluster to a row (sm_90 on) |
//! | [`split_spread`](spread) | up to 131,072, aligned | as `spread`, with the blocks of a cluster to a row |
//! | [`split_parked`](chunked) | up to 262,144, aligned | as `parked`, with the blocks of a cluster to a row |
//! | [`split_staged`](chunked) | up to 262,144, of any alignment | as `staged`, with the blocks of a cluster to a row |
//! | [`stream`] | any | a block a row, read twice |
//!
//! [`attention`] is the softmax of masked, biased and capped scores, with its logarithms as other results; it has
//! packagings of its own, over the same chunks and trees.
//!
//! **The bits of a result depend on the row alone.** A row is cut by element index into chunks of
//! 1,024; a chunk is summed by a fixed tree of lanes and steps, and the chunks by a fixed tree of
//! chunk numbers. Every way follows the same trees, so it does not matter which one ran, how many rows
//! there were, where they lay in memory, or whether it was a GPU.

#![cfg_attr(
    target_arch = "nvptx64",
    no_std,
    feature(abi_ptx, asm_experimental_arch)
)]

pub mod attention;
pub mod chunked;
pub mod element;
pub mod entries;
pub mod exchange;
pub mod exp;
pub mod ln;
pub mod online;
pub mod options;
pub mod packed;
pub mod reduce;
pub mod row;
pub mod scored;
pub mod scores;
pub mod spread;
pub mod stage;
pub mod stream;
pub mod tanh;
pub mod tile;
pub mod warp;
