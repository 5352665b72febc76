//! A warp's stage: shared memory through which it shifts elements that do not start at 16 bytes.
//!
//! Global memory is touched in whole 16-byte vectors, counted from the 128-byte line below the first
//! element, wherever that lies; lanes take their elements, by index, from shared memory. At most 15
//! bytes at either end go one element at a time: nothing outside the span is read or written, so
//! neighbouring spans may be under way, in place too.

use cuda_std::ext::async_copy::copy_16;
use cuda_std::ext::{Global, Shared, U32x4};
use cuda_std::warp::lane_id;

use crate::element::Element;
use crate::reduce::WARP;

/// Bytes of a line: what a warp's accesses are counted from.
const LINE: u32 = 128;
/// Bytes of the widest access.
const VECTOR: u32 = 16;

/// A warp's share of the block's dynamic shared memory.
#[derive(Clone, Copy)]
pub struct Stage {
    words: Shared<u32>,
}

/// Adjacent elements in global memory.
#[derive(Clone, Copy)]
pub struct Span<E: Element> {
    /// The 128-byte line in which the first element lies.
    line: Global<E::Word>,
    /// Elements from there to the first.
    pub skew: u32,
    count: u32,
}

impl<E: Element> Span<E> {
    const SIZE: u32 = size_of::<E::Word>() as u32;
    const PER_VECTOR: u32 = VECTOR / Self::SIZE;

    /// The `count` elements from `start`.
    #[inline(always)]
    pub fn new(start: Global<E::Word>, count: u32) -> Self {
        let skew = (start.address() as u32 & (LINE - 1)) / Self::SIZE;
        Self {
            line: start.at(u64::from(skew).wrapping_neg()),
            skew,
            count,
        }
    }

    /// Calls `vector(v)` for the lane's share of the vectors that lie wholly in the span, v-th from
    /// the line on, and `element(i)` for its share of the other elements, i-th from the line on.
    #[inline(always)]
    fn visit(self, vector: impl Fn(u32), element: impl Fn(u32)) {
        let lane = lane_id();
        let end = self.skew + self.count;
        let first_vector = self.skew.div_ceil(Self::PER_VECTOR);
        let end_vector = end / Self::PER_VECTOR;
        let mut v = lane;
        while v < end_vector {
            if v >= first_vector {
                vector(v);
            }
            v += WARP;
        }
        // The first eight lanes have the head, the next eight the tail, which is no part of the head
        // even where no vector lies between them.
        let head_end = end.min(first_vector * Self::PER_VECTOR);
        let (i, end) = if lane < 8 {
            (self.skew + lane, head_end)
        } else {
            (
                (end_vector * Self::PER_VECTOR).max(head_end) + (lane - 8),
                end,
            )
        };
        if i < end && lane < 16 {
            element(i);
        }
    }
}

/// Words of a stage, each one f32 or two 16-bit elements, from some element on.
#[derive(Clone, Copy)]
pub struct StageWords {
    start: Shared<u32>,
    /// Whether the first element is the second of the word in which it lies.
    straddles: bool,
}

impl StageWords {
    /// The `index`-th word.
    ///
    /// # Safety
    ///
    /// * **written**: its elements were written, and a [`sync_warp`](cuda_std::warp::sync_warp) lies in between.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get(self, index: u32) -> u32 {
        let at = self.start.at(index);
        // SAFETY: written: the caller's; a word that straddles has an element in each of two.
        unsafe {
            if self.straddles {
                (at.load() >> 16) | (at.at(1).load() << 16)
            } else {
                at.load()
            }
        }
    }
}

/// A lane's own share of a parked chunk: vectors of 16 bytes that no other lane touches.
#[derive(Clone, Copy)]
pub struct Parked {
    own: Shared<U32x4>,
}

impl Parked {
    /// Shared memory of a chunk of `elements` elements of `size` bytes.
    #[inline(always)]
    pub const fn bytes(elements: u32, size: u32) -> u32 {
        elements * size
    }

    /// The calling lane's share of the chunk at `byte_offset` of the block's dynamic shared memory.
    #[inline(always)]
    pub fn at(byte_offset: u32) -> Self {
        Self {
            own: Shared::dynamic(byte_offset).at(lane_id()),
        }
    }

    /// Where the lane's `step`-th vector is.
    #[inline(always)]
    pub fn vector(self, step: u32) -> Shared<U32x4> {
        self.own.at(step * WARP)
    }
}

impl Stage {
    /// Shared memory of a stage for `elements` elements of up to `size` bytes, wherever in a line they
    /// begin, and two more.
    #[inline(always)]
    pub const fn bytes(elements: u32, size: u32) -> u32 {
        ((elements + 2) * size).next_multiple_of(LINE) + LINE
    }

    /// The stage at `byte_offset` of the block's dynamic shared memory.
    #[inline(always)]
    pub fn at(byte_offset: u32) -> Self {
        Self {
            words: Shared::dynamic(byte_offset),
        }
    }

    /// Begins to bring the span's elements in, and puts -inf after them up to the `until`-th.
    ///
    /// | who calls | afterwards |
    /// |---|---|
    /// | all lanes, after a [`sync_warp`](cuda_std::warp::sync_warp) since the stage was last read | wait for the copies, then [`sync_warp`](cuda_std::warp::sync_warp), then every lane may read |
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the span's elements are readable, and the stage has room for them, for `until`
    ///   elements, and for a line besides.
    /// * **own**: no other warp uses the stage.
    #[inline(always)]
    pub unsafe fn bring<E: Element>(self, span: Span<E>, until: u32) {
        let stage = self.words.cast::<E::Word>();
        span.visit(
            // SAFETY: in-bounds: a vector wholly in the span; own: each lane has vectors of its own. Both
            // addresses are multiples of 16 bytes.
            |v| unsafe {
                copy_16(
                    self.words.cast::<U32x4>().at(v),
                    span.line.cast::<U32x4>().at(u64::from(v)),
                );
            },
            // SAFETY: in-bounds: an element of the span; own: each lane has elements of its own.
            |i| unsafe { stage.at(i).store(span.line.at(u64::from(i)).load()) },
        );
        let nothing = E::narrow(f32::NEG_INFINITY);
        // Words that straddle reach the element before the first, and two after the last.
        if lane_id() == 0 && !span.skew.is_multiple_of(2) {
            // SAFETY: in-bounds: not below the stage, since the skew is not 0; own: one lane's.
            unsafe { stage.at(span.skew - 1).store(nothing) };
        }
        let mut i = span.count + lane_id();
        while i < until + 2 {
            // SAFETY: in-bounds: the caller's; own: each lane has elements of its own.
            unsafe { stage.at(span.skew + i).store(nothing) };
            i += WARP;
        }
    }

    /// The words that begin with the elements from `first` on.
    #[inline(always)]
    pub fn words_from<E: Element>(self, first: u32) -> StageWords {
        let byte = first * size_of::<E::Word>() as u32;
        StageWords {
            start: self.words.at(byte / 4),
            straddles: !byte.is_multiple_of(4),
        }
    }

    /// The place of the `index`-th element of `E`.
    #[inline(always)]
    pub fn place<E: Element>(self, index: u32) -> Shared<E::Word> {
        self.words.cast::<E::Word>().at(index)
    }

    /// Writes the span's elements as they are.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the span's elements are writable, and no other warp touches them.
    /// * **written**: the stage holds the span's elements, and a [`sync_warp`](cuda_std::warp::sync_warp) lies in between.
    #[inline(always)]
    pub unsafe fn send<E: Element>(self, span: Span<E>) {
        span.visit(
            // SAFETY: in-bounds, written: a vector wholly in the span, both addresses multiples of 16 bytes.
            |v| unsafe {
                let words = self.words.cast::<U32x4>().at(v).load();
                span.line.cast().at(u64::from(v)).store_streaming(words);
            },
            // SAFETY: in-bounds, written: an element of the span.
            |i| unsafe {
                let word = self.words.cast::<E::Word>().at(i).load();
                span.line.at(u64::from(i)).store_streaming(word);
            },
        );
    }

    /// Writes the span's results, `result` of the f32 put in place of each of its elements.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the span's elements are writable, and no other warp touches them.
    /// * **written**: the stage holds the span's elements, and a [`sync_warp`](cuda_std::warp::sync_warp) lies in between.
    #[inline(always)]
    pub unsafe fn send_results<E: Element>(
        self,
        span: Span<E>,
        nan: bool,
        result: impl Fn(f32) -> f32,
    ) {
        // SAFETY: written: elements of the span.
        let value = |i: u32| result(f32::from_bits(unsafe { self.words.at(i).load() }));
        let element = |i: u32| {
            // SAFETY: in-bounds: an element of the span.
            unsafe {
                span.line
                    .at(u64::from(i))
                    .store_streaming(E::narrow_any(value(i)))
            }
        };
        let four = |i: u32| {
            // SAFETY: written: four elements of the span, from a multiple of four on.
            let U32x4(words) = unsafe { self.words.at(i).cast().load() };
            [
                result(f32::from_bits(words[0])),
                result(f32::from_bits(words[1])),
                result(f32::from_bits(words[2])),
                result(f32::from_bits(words[3])),
            ]
        };
        span.visit(
            |v| {
                let first = v * Span::<E>::PER_VECTOR;
                let to = span.line.at(u64::from(first));
                if nan {
                    // A NaN's bits are canonical only one element at a time.
                    let mut i = 0;
                    while i < Span::<E>::PER_VECTOR {
                        element(first + i);
                        i += 1;
                    }
                } else if E::VECTOR == 4 {
                    // SAFETY: in-bounds: a vector wholly in the span; aligned: counted from a line.
                    unsafe { E::store_wide(to, four(first)) };
                } else {
                    let [a, b, c, d] = four(first);
                    let [e, f, g, h] = four(first + 4);
                    // SAFETY: in-bounds: a vector wholly in the span; aligned: counted from a line.
                    unsafe { E::store_wide(to, [a, b, c, d, e, f, g, h]) };
                }
            },
            element,
        );
    }
}
