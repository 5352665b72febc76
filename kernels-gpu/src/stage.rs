//! A warp's stage: shared memory through which it takes elements that do not start at 16 bytes; those of 16 bits are
//! shifted in registers.
//!
//! Global memory is touched in whole 16-byte vectors, counted from the 128-byte line below the first
//! element, wherever that lies; lanes take their elements from shared memory, by index. At most 15
//! bytes at either end of a row go one element at a time. A span of a longer row is read with what else of the row lies in
//! its first and last vector, and written up to its own elements or to its share of the row's vectors: nothing outside
//! the row is read or written, so neighbouring rows may be under way, in place too.

use cuda_std::ext::async_copy::copy_16;
use cuda_std::ext::math::{funnel_shift_right, opaque_u32};
use cuda_std::ext::{Global, Shared, U32x4};
use cuda_std::warp::lane_id;

use crate::element::Element;
use crate::reduce::WARP;
use crate::tile::CHUNK;

/// Bytes of a line: what a warp's accesses are counted from.
pub const LINE: u32 = 128;
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
    /// Elements of the same row before the first, if a vector's at least, and after the last.
    has_before: bool,
    after: u32,
}

/// Elements from one to before another, counted from a span's line.
type Range = (u32, u32);

impl<E: Element> Span<E> {
    const SIZE: u32 = size_of::<E::Word>() as u32;
    const PER_VECTOR: u32 = VECTOR / Self::SIZE;

    /// The `count` elements from `start`.
    #[inline(always)]
    pub fn new(start: Global<E::Word>, count: u32) -> Self {
        Self::within_row(start, count, false, 0)
    }

    /// The same, of a row that has `after` elements after them and, if it `has_before`, a vector at least before them.
    #[inline(always)]
    pub fn within_row(start: Global<E::Word>, count: u32, has_before: bool, after: u32) -> Self {
        let skew = (start.address() as u32 & (LINE - 1)) / Self::SIZE;
        Self {
            line: start.at(u64::from(skew).wrapping_neg()),
            skew,
            count,
            has_before,
            after,
        }
    }

    /// How many elements there are.
    #[inline(always)]
    pub fn count(self) -> u32 {
        self.count
    }

    /// Writes one word to all the elements.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the elements are writable, and no other warp touches them.
    #[inline(always)]
    pub unsafe fn fill(self, word: E::Word) {
        let mut i = lane_id();
        while i < self.count {
            // SAFETY: in-bounds: the caller's.
            unsafe {
                self.line.at(u64::from(self.skew + i)).store_streaming(word);
            }
            // Opaque, or this rare loop would be written out several times.
            i += opaque_u32(WARP);
        }
    }

    /// Where the elements are.
    #[inline(always)]
    fn exact(self) -> Range {
        (self.skew, self.skew + self.count)
    }

    /// The same from the start of a vector on, if that is of the row.
    #[inline(always)]
    fn start_of_vector(self) -> u32 {
        if self.has_before {
            self.skew - self.skew % Self::PER_VECTOR
        } else {
            self.skew
        }
    }

    /// Where the vectors are that hold an element, as far as the row goes.
    #[inline(always)]
    fn cover(self) -> Range {
        let end = self.skew + self.count;
        let whole = end.next_multiple_of(Self::PER_VECTOR);
        (self.start_of_vector(), whole.min(end + self.after))
    }

    /// The same, but for the last vector where the row's next span has that as its first: every element of a row is
    /// in one of its spans.
    #[inline(always)]
    fn share(self) -> Range {
        let end = self.skew + self.count;
        let whole = end - end % Self::PER_VECTOR;
        (
            self.start_of_vector(),
            if self.after > 0 { whole } else { end },
        )
    }

    /// The first of the vectors that lie wholly in a range, counted from the line on, and the one after the last.
    #[inline(always)]
    fn whole_vectors((start, end): Range) -> (u32, u32) {
        (start.div_ceil(Self::PER_VECTOR), end / Self::PER_VECTOR)
    }

    /// Calls `vector(v, w)` for the lane's share of the vectors that lie wholly in a range, `v + w`-th from the
    /// line on, `v` being the same each time. A range has up to 32 times `each` elements, a
    /// multiple of eight that the compiler knows, and a vector: all is written out.
    #[inline(always)]
    fn visit_vectors(each: u32, range: Range, vector: impl Fn(u32, u32)) {
        let lane = lane_id();
        // Opaque, so that an address is computed once, with the steps as constants, instead of anew from each number that is
        // compared.
        let own = opaque_u32(lane);
        let (first, end) = Self::whole_vectors(range);
        if lane >= first && lane < end {
            vector(own, 0);
        }
        let mut step = 1;
        // One more than of aligned ranges.
        while step <= each / Self::PER_VECTOR {
            if lane + step * WARP < end {
                vector(own, step * WARP);
            }
            step += 1;
        }
    }

    /// Calls `element(i)` for the lane's share of the elements that lie in no vector that is wholly in the range, i-th
    /// from the line on.
    #[inline(always)]
    fn visit_others(range: Range, element: impl Fn(u32)) {
        // Opaque, so that nobody keeps in registers what only this rare part needs.
        let lane = opaque_u32(lane_id());
        let (start, end) = range;
        let (first_vector, end_vector) = Self::whole_vectors(range);
        // The first eight lanes have the head, the next eight the tail, which is no part of the head
        // even where no vector lies between them.
        let head_end = end.min(first_vector * Self::PER_VECTOR);
        let (i, end) = if lane < 8 {
            (start + lane, head_end)
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

/// Sixteen bytes of `vectors`, 32 in all, from the `K`-th word and `bits` bits on; for elements of a word there are none.
#[inline(always)]
fn shifted<E: Element, const K: usize>([a, b]: [U32x4; 2], bits: u32) -> U32x4 {
    let words = [
        a.0[0], a.0[1], a.0[2], a.0[3], b.0[0], b.0[1], b.0[2], b.0[3],
    ];
    let mut result = [0; 4];
    let mut i = 0;
    while i < 4 {
        result[i] = if Span::<E>::SIZE == 4 {
            words[K + i]
        } else {
            funnel_shift_right(words[K + i], words[K + i + 1], bits)
        };
        i += 1;
    }
    U32x4(result)
}

/// Runs `$body` with a function `$take` that loads 16 bytes of `$element`, from `$elements` of them, less than a vector,
/// after a vector's address on.
///
/// Which words that takes is known to the compiler in each copy of the body, or it would select each of them.
macro_rules! with_shift {
    ($element:ty, $elements:expr, |$take:ident| $body:expr) => {{
        let bytes = $elements * Span::<$element>::SIZE;
        let bits = bytes % 4 * 8;
        macro_rules! copy {
            ($k:literal) => {{
                // SAFETY: the caller's of `take`.
                let $take = |from: Shared<U32x4>| unsafe {
                    shifted::<$element, $k>([from.load(), from.at(1).load()], bits)
                };
                $body
            }};
        }
        match bytes / 4 {
            0 if bits == 0 => {
                // SAFETY: the caller's of `take`.
                let $take = |from: Shared<U32x4>| unsafe { from.load() };
                $body
            }
            0 => copy!(0),
            1 => copy!(1),
            2 => copy!(2),
            _ => copy!(3),
        }
    }};
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
    /// begin, and 16 more.
    #[inline(always)]
    pub const fn bytes(elements: u32, size: u32) -> u32 {
        ((elements + 16) * size).next_multiple_of(LINE) + LINE
    }

    /// The stage at `byte_offset` of the block's dynamic shared memory.
    #[inline(always)]
    pub fn at(byte_offset: u32) -> Self {
        Self {
            words: Shared::dynamic(byte_offset),
        }
    }

    /// Begins to bring the span's elements in, up to 32 times `each`, with what else of the row lies in vectors with
    /// them. Puts -inf wherever else vectors that do not begin where the span does, and a word more, may reach.
    ///
    /// | who calls | afterwards |
    /// |---|---|
    /// | all lanes, after a [`sync_warp`](cuda_std::warp::sync_warp) since the stage was last read | wait for the copies, then [`sync_warp`](cuda_std::warp::sync_warp), then every lane may read |
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the span's elements, and those of its row, are readable, and the stage has room for them, 16
    ///   more, and a line.
    /// * **own**: no other warp uses the stage.
    #[inline(always)]
    pub unsafe fn bring<E: Element>(self, span: Span<E>, each: u32) {
        let range = span.cover();
        let per_vector = Span::<E>::PER_VECTOR;
        // SAFETY: in-bounds, own: the caller's.
        unsafe { self.bring_vectors(span, range, each) };
        let (before, after) = (range.0 % per_vector, range.1 % per_vector);
        if before == 0 && after == 0 && span.has_before && span.after > 0 {
            // In the middle of a row.
            return;
        }
        // SAFETY: in-bounds, own: the caller's.
        unsafe { self.bring_others(span, range, before) };
    }

    /// As [`Stage::bring`], sooner done with spans of whole vectors.
    ///
    /// For warps that bring once: in a loop over chunks the other is faster.
    ///
    /// # Safety
    ///
    /// As for [`Stage::bring`].
    #[inline(always)]
    pub unsafe fn bring_once<E: Element>(self, span: Span<E>, each: u32) {
        let range = span.cover();
        let per_vector = Span::<E>::PER_VECTOR;
        // SAFETY: in-bounds, own: the caller's.
        unsafe { self.bring_vectors(span, range, each) };
        let lane = lane_id();
        if (range.0 | range.1).is_multiple_of(per_vector) {
            // In the middle of a row nothing else is reached.
            if lane < 16 / per_vector && !(span.has_before && span.after > 0) {
                let after = self.words.cast::<U32x4>().at(range.1 / per_vector);
                // SAFETY: in-bounds: the caller's; own: each lane has a vector of its own.
                unsafe { after.at(lane).store(E::NOTHING) };
            }
            return;
        }
        // SAFETY: in-bounds, own: the caller's.
        unsafe { self.bring_others(span, range, range.0 % per_vector) };
    }

    /// Begins to bring the vectors that lie wholly in a range.
    ///
    /// # Safety
    ///
    /// As for [`Stage::bring`].
    #[inline(always)]
    unsafe fn bring_vectors<E: Element>(self, span: Span<E>, range: Range, each: u32) {
        let (to, from) = (self.words.cast::<U32x4>(), span.line.cast::<U32x4>());
        // SAFETY: in-bounds: a vector wholly in the row; own: each lane has vectors of its own. Both
        // addresses are multiples of 16 bytes.
        Span::<E>::visit_vectors(each, range, |v, w| unsafe {
            copy_16(to.at(v).at(w), from.at(u64::from(v)).at(u64::from(w)));
        });
    }

    /// Brings what else lies in a range, whose first vector begins `before` elements before it, and puts -inf where
    /// vectors may reach beyond it.
    ///
    /// # Safety
    ///
    /// As for [`Stage::bring`].
    #[inline(always)]
    unsafe fn bring_others<E: Element>(self, span: Span<E>, range: Range, before: u32) {
        let stage = self.words.cast::<E::Word>();
        // SAFETY: in-bounds: an element of the row; own: each lane has elements of its own.
        Span::<E>::visit_others(range, |i| unsafe {
            stage.at(i).store(span.line.at(u64::from(i)).load());
        });
        // The first 16 lanes have those after the last, the others those before the first.
        let lane = lane_id();
        let (i, is_there) = if lane < 16 {
            (range.1 + lane, true)
        } else {
            (range.0 - before + (lane - 16), lane - 16 < before)
        };
        if is_there {
            // SAFETY: in-bounds: the caller's, and not below the stage; own: each lane has elements of its own.
            unsafe { stage.at(i).store(E::narrow(f32::NEG_INFINITY)) };
        }
    }

    /// Puts -inf after the elements of a span at the end of a row up to the `until`-th, and where vectors with one of them
    /// reach.
    ///
    /// # Safety
    ///
    /// As for [`Stage::bring`], of so many elements.
    #[inline(always)]
    pub unsafe fn fill<E: Element>(self, span: Span<E>, until: u32) {
        let stage = self.words.cast::<E::Word>();
        // As many are there already.
        let mut i = span.count + 16 + lane_id();
        while i < until + Span::<E>::PER_VECTOR {
            // SAFETY: in-bounds: the caller's; own: each lane has elements of its own.
            unsafe { stage.at(span.skew + i).store(E::narrow(f32::NEG_INFINITY)) };
            i += WARP;
        }
    }

    /// The lane's vectors: the first at `skew` elements and a vector for each lane before it, then 32 vectors further each.
    ///
    /// # Safety
    ///
    /// * **written**: the stage holds the elements, and those in vectors with them; a
    ///   [`sync_warp`](cuda_std::warp::sync_warp) lies in between.
    #[inline(always)]
    pub unsafe fn vectors<E: Element, const STEPS: usize>(self, skew: u32) -> [U32x4; STEPS] {
        let skew_bytes = skew * Span::<E>::SIZE;
        let from = self
            .words
            .cast::<U32x4>()
            .at(skew_bytes / VECTOR)
            .at(lane_id());
        with_shift!(E, skew % Span::<E>::PER_VECTOR, |take| {
            let mut vectors = [U32x4([0; 4]); STEPS];
            let mut step = 0;
            while step < STEPS {
                vectors[step] = take(from.at(step as u32 * WARP));
                step += 1;
            }
            vectors
        })
    }

    /// The vector from the `first`-th element on, at an address that differs from lane to lane.
    ///
    /// # Safety
    ///
    /// * **written**: the stage holds the elements, for 16 bits that before them and two after them, and a
    ///   [`sync_warp`](cuda_std::warp::sync_warp) lies in between.
    #[inline(always)]
    pub unsafe fn vector<E: Element>(self, first: u32) -> U32x4 {
        let byte = first * Span::<E>::SIZE;
        let from = self.words.at(byte / 4);
        // SAFETY: written: the caller's.
        let word = |i: u32| unsafe { from.at(i).load() };
        let [a, b, c, d] = [word(0), word(1), word(2), word(3)];
        if Span::<E>::SIZE == 4 {
            return U32x4([a, b, c, d]);
        }
        let (bits, e) = (byte % 4 * 8, word(4));
        U32x4([
            funnel_shift_right(a, b, bits),
            funnel_shift_right(b, c, bits),
            funnel_shift_right(c, d, bits),
            funnel_shift_right(d, e, bits),
        ])
    }

    /// The place of the `index`-th element of `E`.
    #[inline(always)]
    pub fn place<E: Element>(self, index: u32) -> Shared<E::Word> {
        self.words.cast::<E::Word>().at(index)
    }

    /// Writes the span's elements, up to 32 times `each`, as they are: they lie where [`Stage::bring`] puts them.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the span's elements are writable, and no other warp touches them.
    /// * **written**: the stage holds the span's elements, and a [`sync_warp`](cuda_std::warp::sync_warp) lies in between.
    #[inline(always)]
    pub unsafe fn send<E: Element>(self, span: Span<E>, each: u32) {
        let (from, to) = (self.words.cast::<U32x4>(), span.line.cast::<U32x4>());
        // SAFETY: in-bounds, written: a vector wholly in the span, both addresses multiples of 16 bytes.
        Span::<E>::visit_vectors(each, span.exact(), |v, w| unsafe {
            let words = from.at(v).at(w).load();
            to.at(u64::from(v)).at(u64::from(w)).store_streaming(words);
        });
        let (start, end) = span.exact();
        if (start | end).is_multiple_of(Span::<E>::PER_VECTOR) {
            return;
        }
        // SAFETY: in-bounds, written: an element of the span.
        Span::<E>::visit_others(span.exact(), |i| unsafe {
            let word = self.words.cast::<E::Word>().at(i).load();
            span.line.at(u64::from(i)).store_streaming(word);
        });
    }

    /// Writes the span's elements, up to 32 times `each`, as they are: they lie from the stage's start on.
    ///
    /// # Safety
    ///
    /// As for [`Stage::send`].
    #[inline(always)]
    pub unsafe fn send_shifted<E: Element>(self, span: Span<E>, each: u32) {
        let to = span.line.cast::<U32x4>();
        let (first_vector, _) = Span::<E>::whole_vectors(span.exact());
        // Elements of the span before the first vector.
        let head = first_vector * Span::<E>::PER_VECTOR - span.skew;
        let from = self.words.cast::<U32x4>().at(first_vector.wrapping_neg());
        with_shift!(E, head, |take| {
            // SAFETY: in-bounds: a vector wholly in the span, at a multiple of 16 bytes; written: of the two
            // vectors that it reaches into, each has elements of the span.
            Span::<E>::visit_vectors(each, span.exact(), |v, w| unsafe {
                let words = take(from.at(v).at(w));
                to.at(u64::from(v)).at(u64::from(w)).store_streaming(words);
            });
        });
        // Opaque, so that what follows is computed here, and not kept in registers meanwhile.
        let span = Span {
            skew: opaque_u32(span.skew),
            ..span
        };
        // SAFETY: in-bounds, written: an element of the span.
        Span::<E>::visit_others(span.exact(), |i| unsafe {
            let word = self.words.cast::<E::Word>().at(i - span.skew).load();
            span.line.at(u64::from(i)).store_streaming(word);
        });
    }

    /// Writes the results of a span's share of its row, straight from the inputs that lie where [`Stage::bring`] has put
    /// them: `vectors` of up to `STEPS` vectors of each lane, `element` of elements that are in none.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the elements that are the span's share are writable, and no other warp touches them.
    /// * **same**: the inputs begin as many elements after a line as `span`, and are of the same size.
    /// * **written**: the stage holds the cover of the inputs, and a [`sync_warp`](cuda_std::warp::sync_warp) lies in between.
    #[inline(always)]
    pub unsafe fn send_results_straight<In: Element, Out: Element, const STEPS: usize>(
        self,
        span: Span<Out>,
        vectors: impl FnOnce([U32x4; STEPS]) -> [U32x4; STEPS],
        element: impl Fn(In::Word) -> Out::Word,
    ) {
        let share = span.share();
        let (first, end) = Span::<Out>::whole_vectors(share);
        let first = first + lane_id();
        let from = self.words.cast::<U32x4>().at(first);
        let to = span.line.cast::<U32x4>().at(u64::from(first));
        let mut words = [In::NOTHING; STEPS];
        let mut step = 0;
        while step < STEPS {
            if first + (step as u32) * WARP < end {
                // SAFETY: written: a vector of the share.
                words[step] = unsafe { from.at(step as u32 * WARP).load() };
            }
            step += 1;
        }
        let results = vectors(words);
        step = 0;
        while step < STEPS {
            if first + (step as u32) * WARP < end {
                // SAFETY: in-bounds: a vector of the share, at a multiple of 16 bytes, since the input's is: same.
                unsafe {
                    to.at(u64::from(step as u32 * WARP))
                        .store_streaming(results[step]);
                }
            }
            step += 1;
        }
        // Opaque, so that this is computed here, and not kept in registers meanwhile.
        let share = Span {
            skew: opaque_u32(span.skew),
            ..span
        }
        .share();
        if share.0.is_multiple_of(Span::<Out>::PER_VECTOR)
            && share.1.is_multiple_of(Span::<Out>::PER_VECTOR)
        {
            return;
        }
        // SAFETY: in-bounds, written: an element of the share.
        Span::<Out>::visit_others(share, |i| unsafe {
            let word = element(self.words.cast::<In::Word>().at(i).load());
            span.line.at(u64::from(i)).store_streaming(word);
        });
    }

    /// Writes a chunk's results, `result`, which is not NaN, of the f32 put in place of each of its elements.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the span's elements are writable, and no other warp touches them.
    /// * **written**: the stage holds the span's elements, and a [`sync_warp`](cuda_std::warp::sync_warp) lies in between.
    #[inline(always)]
    pub unsafe fn send_results<E: Element>(self, span: Span<E>, result: impl Fn(f32) -> f32) {
        // SAFETY: written: elements of the span.
        let value = |i: u32| result(f32::from_bits(unsafe { self.words.at(i).load() }));
        let element = |i: u32| {
            // SAFETY: in-bounds: an element of the span.
            unsafe {
                span.line
                    .at(u64::from(i))
                    .store_streaming(E::narrow(value(i)))
            }
        };
        let four = |from: Shared<u32>| {
            // SAFETY: written: four elements of the span, from a multiple of four on.
            let U32x4(words) = unsafe { from.cast().load() };
            [
                result(f32::from_bits(words[0])),
                result(f32::from_bits(words[1])),
                result(f32::from_bits(words[2])),
                result(f32::from_bits(words[3])),
            ]
        };
        Span::<E>::visit_vectors(CHUNK / WARP, span.exact(), |v, w| {
            let from = self.words.at(v * Span::<E>::PER_VECTOR);
            let from = from.at(w * Span::<E>::PER_VECTOR);
            let to = span.line.at(u64::from(v * Span::<E>::PER_VECTOR));
            let to = to.at(u64::from(w * Span::<E>::PER_VECTOR));
            if E::VECTOR == 4 {
                // SAFETY: in-bounds: a vector wholly in the span; aligned: counted from a line.
                unsafe { E::store_wide(to, four(from)) };
            } else {
                let [a, b, c, d] = four(from);
                let [e, f, g, h] = four(from.at(4));
                // SAFETY: in-bounds: a vector wholly in the span; aligned: counted from a line.
                unsafe { E::store_wide(to, [a, b, c, d, e, f, g, h]) };
            }
        });
        Span::<E>::visit_others(span.exact(), element);
    }
}
