//! How it works, and what it promises: the reasons behind the results, to be read before they are trusted.
//!
//! # How a row is cut
//!
//! A row is cut by element index, never by address:
//!
//! * into **chunks** of 1,024 elements, a chunk being what one warp holds, or four where there are few;
//! * a chunk into **vectors** of 16 input bytes, 4 elements of f32 or 8 of 16 bits. Lane `l` of 32 has
//!   vectors `l`, `l + 32`, ..; a shorter row may have fewer lanes, which then add what the missing ones
//!   would have had in the same order;
//! * a vector is summed in fours, `(a + c) + (b + d)`, one of 16 bits as its even and its odd elements; the fours of
//!   vectors 32 apart are added one after the other; lanes are added 16 apart first and neighbours last, and chunks by their number: those 32 apart one
//!   after the other, then in halves.
//!
//! These trees fix every rounding, and so the bits. All else is packaging, and moves no bit: which way runs, how
//! many rows there are, how they are aligned, how many warps a chunk has, or a block, or how many blocks a cluster. Elements past a
//! row's end are -inf and empty parts are the identity of the merge, so filling up changes nothing either.
//!
//! | way | a row is held by | used for |
//! |---|---|---|
//! | `warp` | 1 to 32 lanes, in registers | aligned rows of up to 1,024; others with gaps between them of up to 256, of f32 without gaps up to 16 |
//! | `packed` | the same, through shared memory | other rows without gaps: of f32 from 17 to 512, of 16 bits up to 1,024 |
//! | `block` | a block, in registers | aligned 16-bit rows from 1,025 to 4,096, or 16,384 in IEEE arithmetic |
//! | `spread` | a block, in registers, four warps to a chunk | few aligned rows of 257 to 1,024, of 16 bits, or without clusters, 2,048 |
//! | `parked` | a block, in shared memory as loaded | longer aligned rows: of f32 up to 16,384, of 16 bits up to 8,192, or without clusters 32,768 |
//! | `staged` | a block, in registers or in shared memory, shifted on the way | unaligned rows of up to 24,576, of 16 bits up to 32,768 unless in IEEE arithmetic; aligned ones of f32 from 1,025 to 2,048 and from 16,385 to 24,576 |
//! | `split` | a cluster of blocks, in registers | few aligned rows of 4,096 or more that `split_spread` is not for; f32 from 32,769 to 65,536; long 16-bit rows in IEEE arithmetic |
//! | `split_spread` | a cluster, in registers, four warps to a chunk | few longer ones of up to 32,768, of 16 bits 16,384 |
//! | `split_parked` | a cluster, in shared memory as loaded | other aligned rows of up to 262,144 |
//! | `split_staged` | a cluster, in registers or in shared memory, shifted on the way | other unaligned rows of up to 262,144 |
//! | `stream` | nobody: a block reads it twice | longer rows, and what a device without clusters cannot hold |
//!
//! `parked` and `split_parked` are there only where input and output have one type; others take `staged`, `split` or
//! `split_staged` there.
//!
//! *Aligned*: each row begins at 16 bytes and is whole vectors, in input and output; results of which a vector's take
//! 8 bytes may begin at 8. Which way the input's and
//! output's types, lengths and the device lead to is a table in the plan; [`Softmax::plan`] tells its choice.
//! A cluster has 16 blocks at most, on some devices fewer, and is there from compute capability 9.0 on.
//!
//! # Where it is online, and where not
//!
//! The online softmax (Milakov and Gimelshein, 2018) carries a pair, maximum and sum, and rescales the sum whenever
//! the maximum grows. It saves a pass over memory, and costs rescaling. So it is used between chunks only:
//!
//! * within a chunk the maximum comes first, since the elements are in registers anyway; then come the exponentials,
//!   one each, without a rescaling;
//! * `warp` and `packed` rows are one chunk, so nothing is online;
//! * where warps share a row, each takes its chunks relative to their own maxima and tells the others the pairs. One
//!   exchange then settles maximum and sum together, instead of one for each;
//! * `stream` merges each chunk's pair into a running one, and reads the row again to write the results.
//!
//! # Why the shift is stable
//!
//! Let `n = rint(x log2 e)` and `r = x - n ln 2`, so that |r| is at most about 0.35, and let the integer K be the
//! exponent of the maximum, `rint(max log2 e)`. Then
//!
//! ```text
//! e^x 2^-K = p(r) 2^(n - K),    p(r) = e^r to within its error,    n <= K
//! ```
//!
//! (For 16-bit results r is in units of ln 2, `p(r) = 2^r`, and in place of log2 e stands that rounded to f32: a base of
//! `e^(1 - 1.4e-8)`. Its error is common to all elements but for 1.4e-8 for each unit between an element and the
//! maximum: where that adds up to 1e-6, the result is below 2^-100.)
//!
//! This is the subtraction of the maximum, rounded to where it costs no bits: `e^(x - max)` is the same
//! times `e^(K ln 2 - max)`, which is between 0.7 and 1.42, common to all elements, and cancels in the quotient.
//! No term is above 1.42, so nothing overflows, and the maximum's own term is at least 0.7, so the sum is never 0.
//!
//! What is gained over `x - max` is exactness:
//!
//! * **`n` does not depend on K.** One fused multiply-add rounds `x log2 e` plus an integer offset at the binary point;
//!   the offset moves the result by an integer. So r and p(r) do not depend on K either: K only moves the exponent, and an
//!   element's exponential has the same significand relative to its chunk's maximum as relative to the row's.
//! * **Bringing a sum to another maximum is exact**, being a multiplication by `2^(K - K')`, where the textbook form
//!   multiplies by a rounded `e^(max - max')`. It is dropped as a whole below 2^-126: the maximum's part has
//!   24 bits, and twice that with the low part of its sum, so 2^-126 of a part is far below its last bit; so is
//!   what a low part may lose by becoming subnormal near there.
//! * **Small terms stay normal.** Terms are kept times 2^30, and clamped at 2^-154 of the maximum (-inf as well): such
//!   an element's result is 0 after rounding to any type, and 2^31 of them change no bit of a sum.
//!
//! All this needs `x log2 e` to be rounded well, which holds for |x| below about 65,536. A row whose maximum is that
//! large in magnitude, and finite, is first taken less its maximum. Elements so near the maximum that they
//! matter are then within a factor of two of it, and their differences exact (Sterbenz).
//!
//! # How large the error is
//!
//! In u = 2^-24, half the distance of f32 neighbours at 1. The exponentials' errors are held by a test over every few
//! f32, up to 65,536 in magnitude and down to 2^-153 of the maximum; those of 16-bit results relative to their own base,
//! which adds at most 0.0005 units in the last place over all of f16's range, and 0.0004 over bf16's.
//!
//! | step | f32 results | f16 results | bf16 results |
//! |---|---|---|---|
//! | exponential | 1.33 u | 3e-7: 5 u | 3e-6: 50 u |
//! | sum of a lane's share of a chunk | nearly exact: cut in two, of which the high parts add up without rounding | 9 u: up to 9 roundings | 9 u |
//! | lanes together | nearly exact: high part and rounding errors (Knuth's TwoSum) | 5 u | 5 u |
//! | chunks together | nearly exact: the same | nearly exact: the same | nearly exact: the same |
//! | one over the sum | 2^-34: a second part by one Newton step | 2 u: sum and quotient rounded | 2 u |
//! | times the exponential | half an ulp: one fused rounding | 1 u, then half an ulp | 1 u, then half an ulp |
//!
//! A result has its own exponential's error and its sum's. Relative error d is at most `d 2^p` units in the last place
//! of p significant bits, reached just below a power of two. So, were all errors to be the largest and to conspire:
//!
//! | output | bound, ulp | what the tests hold results to |
//! |---|---|---|
//! | f32 | (1.33 + 1.33) + 0.5 = 3.2 | 4 |
//! | f16 | 2^11 (2 * 3e-7 + 17 u) + 0.5 = 0.504 | 0.51 |
//! | bf16 | 2^8 (2 * 3e-6 + 17 u) + 0.5 = 0.502 | 0.51 |
//!
//! Drawn rows stay well below the bounds, since their errors do not all have one sign and average out. So the tests also make
//! rows that come near: four numbers over and over whose exponentials, and the sums of which, err one way as far as any
//! of 20,000 drawn, and a last one whose exponential errs the other way. They tell why even the sum of four has two parts: with
//! two plain additions there such rows are off by up to 4.5 ulp.
//!
//! A result is rounded once, subnormal ones too: until then only powers of two multiply it. That is also why it has the same bits
//! whatever chunk its exponential was taken in. For rows of one live element the two parts of the
//! reciprocal give exactly 1.
//!
//! The fast exponential of long 16-bit rows ([below](#what-the-bits-depend-on)) is the GPU's `ex2.approx`, of an argument
//! relative to a maximum, taken once for the sum and again for the results: within 1.6e-6 where it matters, so that f16
//! results are within `2^11 (2 * 1.6e-6 + 17 u) + 0.5 = 0.509`. The tests hold them to the same 0.51.
//!
//! # What becomes of special values
//!
//! | in a row | gives |
//! |---|---|
//! | a NaN | NaN in the whole row, and in no other; with [`NanPolicy::Ignore`] it counts as -inf |
//! | +inf | NaN in the whole row, as `inf - inf` has it |
//! | -inf beside finite numbers | +0 there |
//! | nothing but -inf, or ignored NaNs | zeros; with [`FullyMasked::Uniform`] `1 / cols`, with [`FullyMasked::Nan`] NaN |
//! | one element that is finite | exactly 1 there |
//! | no element, or no row at all | nothing, without a launch or an error |
//!
//! * The scale comes first, rounded to f32 once, and follows IEEE: 0 times infinity is NaN, -inf times a
//!   negative scale +inf. It has to be finite.
//! * NaN results are quiet and have one pattern: `0x7fc00000` in f32, `0x7e00` in f16, `0x7fc0` in bf16.
//! * Subnormal results are kept, not flushed to 0. No result is negative, or -0.
//! * The input is never written, except in place. Nothing outside the rows is read or written: not
//!   the gaps between them either.
//!
//! # Masks, and logarithms
//!
//! [`MaskedSoftmax`] has the formula: scale, soft cap, biases, each rounded to f32 once; then what is hidden is taken out. It
//! has kernels of its own, in which all of this is chosen when they run:
//!
//! | way | a row is held by | used for |
//! |---|---|---|
//! | `warp` | half a warp, in registers | rows of up to 512, where masks alone are asked for, and rows are whole vectors |
//! | `block` | a block, in registers, a chunk a warp | rows of up to 32,768, of f32 for 16-bit scores 28,672; 16,384 where more is asked for than masks, or rows are not whole vectors |
//! | `split` | a cluster of blocks, likewise | rows of up to 262,144 |
//! | `stream` | nobody: a block reads it twice | longer rows, and what a device cannot hold |
//!
//! `block` and `split` have kernels that can do masks, lengths and sinks alone, where scores, results and masks move in whole
//! vectors; others that can do all, of rows that begin anywhere; and others again for logarithms. What only the latter can do goes
//! through shared memory an element at a time, such as an operand whose rows do not begin at 16 bytes.
//!
//! Rows are cut and summed as [above](#how-a-row-is-cut), so that a softmax without masks has the bits of the plain one in IEEE
//! arithmetic, which is the only one here; 16-bit results that come with a logarithm are made with the exponential of f32
//! results, and may differ from those in the last bit.
//!
//! * **Hidden is absent.** A hidden key's score is -inf from where it is made until the row's maximum is known, unless a
//!   whole quarter of a chunk is hidden, which has no scores, and its exponential exactly 0 where a logarithm may be taken of the sum. No number stands for -inf: a part of a row with nothing left is the identity of the merge.
//! * **What causality, a window or a length hides is not read**: for each row they leave one range of keys. Vectors outside
//!   are not loaded, and quarters of a chunk outside not computed; only in those that the range's ends cut is each key
//!   looked at. Their results are written all the same.
//! * **Rows that share a row of a mask follow one another**: a launch walks the dimensions along which no mask moves, such as
//!   the heads, innermost.
//! * **A block walks up to eight rows**, one after the other, where the arithmetic takes longer than the memory: of 16 bits, or where
//!   logarithms or more than masks are asked for. Where the next row lies follows from the one before, and a row of an additive
//!   mask that both have is brought once. With f32, whose time is the memory's, blocks that stay take longer than new ones.
//! * **A sink** is merged at the end, as a part of the row with one element and no result.
//!
//! With s the sum of `e^(z - m)`, `ln s` comes from the pair that s is, divided by the maximum's own term as it stands in the sum: a row of one
//! key has s = 1 and `ln s = 0` exactly. The logarithm's argument is brought to a factor of sqrt 2 around 1, where it is twice the
//! series of the inverse tangent; its leading term is a pair, so that `ln s` is within 2^-27. Then `log y` is `z - m` less `ln s`,
//! with the rounding errors of both differences added back: half an ulp of the result, and 2.7 u from the exponentials. Logarithms
//! are taken with the exponential of f32 results, whatever their type.
//!
//! `m + ln s` can be much smaller than 1, where 2.7 u would be many units in its last place. So where both are
//! below 1 in magnitude, the row is gone over once more, for a sum with what rounding took from each exponential:
//! `p(r) = 1 + r q(r)`, and that sum's rounding error is known.
//!
//! The hyperbolic tangent is `1 - 2 / (e^2x + 1)` with a quotient of two parts, below 0.55 a polynomial. Both functions are held to 1 ulp by
//! a test over every few f32; largest found are 0.55 for the logarithm and 0.84 for the tangent.
//!
//! # What the bits depend on
//!
//! On the row, the scale, the policies and the types.
//!
//! | from | to | same bits | except for long 16-bit rows, unless [`Softmax::reproducible`] |
//! |---|---|---|---|
//! | a run | the next | yes | yes |
//! | a row alone | any place in any batch | yes | yes |
//! | one alignment, or stride | another | yes | yes |
//! | a way | another | yes | yes, among those that the plan takes |
//! | one kind of GPU | another | yes | no: 1 ulp of the output |
//! | a GPU | the emulator | yes | no: 1 ulp of the output |
//!
//! *Long 16-bit rows* are those of more than 4,096 elements, with the same 16-bit type in and out: up to 262,144
//! elements, or what the device can hold, the plan takes `ex2.approx`, whose last bits are the device's. Whether it
//! does depends on length, types and device alone. Everywhere else kernels use additions, multiplications, fused
//! multiply-adds, divisions and conversions that IEEE 754 rounds in one way, in an order that is fixed; there are
//! no atomic additions. This is compared on an H200 and the emulator; that other kinds of GPU agree follows from the
//! arithmetic, and has not been run.
//!
//! # How far it is tested
//!
//! | limit | accepted | computed and checked |
//! |---|---|---|
//! | elements a row | 1 to 2^31 - 1 ([`MAX_COLS`]); 0 is nothing to do | every length to 1,024; both sides of every threshold of the plan, past 262,144 |
//! | rows | any number; from 2^31 on several launches | 2,200,000,000 |
//! | elements, offsets, strides | what memory can address; 64-bit throughout | more than 2^32 elements, rows 2^32 + 8 elements apart |
//! | leading dimensions | any number | up to 7 |
//!
//! Leading dimensions that lie as one in memory are walked as one; of what is left a launch walks four, and the rest
//! take several launches. A row so long that only `stream` takes it is tested just past 262,144; what lies far beyond has
//! been checked as a plan, not computed. Tensors beyond 2^31 elements are tested on a GPU only, where it has the
//! memory; without one, tests check the kernels' offset arithmetic with the same numbers.
//!
//! Cases run by every way that can hold them (fewer where the emulator would take too long), on the emulator and on the GPU if there is one: against an oracle in f64,
//! for equal bits, and with guards around the tensors. The emulator also checks every access of the kernels; those of drawn
//! cases, in an order of threads drawn with each, for races and unwritten memory too ([`Device::checked`]).
//!
//! # When to use something else
//!
//! * **Attention scores that nobody else needs**: a fused attention kernel never writes them. A softmax of its own costs two
//!   writes and two reads of the whole matrix, however fast it is.
//! * **Inside a graph of cuDNN**: leave softmax to cuDNN there. This library's calls can be captured into CUDA
//!   graphs after [`Softmax::prepare`], but they stay kernels of their own.
//! * **A few numbers on the CPU**: a loop. The emulator runs every thread of a GPU as a coroutine; it is for correct results where no
//!   GPU is, and for tests, not for speed.
//!
//! [`Device::checked`]: crate::Device::checked
//! [`MaskedSoftmax`]: crate::MaskedSoftmax
//! [`Softmax::plan`]: crate::Softmax::plan
//! [`Softmax::prepare`]: crate::Softmax::prepare
//! [`Softmax::reproducible`]: crate::Softmax::reproducible
//! [`NanPolicy::Ignore`]: crate::NanPolicy::Ignore
//! [`FullyMasked::Uniform`]: crate::FullyMasked::Uniform
//! [`FullyMasked::Nan`]: crate::FullyMasked::Nan
//! [`MAX_COLS`]: crate::MAX_COLS
