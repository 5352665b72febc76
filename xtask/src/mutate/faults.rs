//! The faults that softmax kernels have had, each as a change of these sources.
//!
//! Missing barriers are not among them: every statement is left out once anyway.

use std::ops::Range;

use crate::Error;

/// A change of some text, which is an expression or whole statements without a `let`.
pub struct Fault {
    pub name: &'static str,
    pub file: &'static str,
    /// Words that stand once in the file, before the text.
    pub after: &'static str,
    pub text: &'static str,
    pub replacement: &'static str,
}

impl Fault {
    /// Where the text is.
    pub fn place(&self, file: &str) -> Result<Range<usize>, Error> {
        let Self {
            name, file: path, ..
        } = self;
        let refused = |what: String| format!("the fault `{name}` no longer applies: {path} {what}");
        let start = match file.matches(self.after).count() {
            1 => file.find(self.after).expect("it is there"),
            count => return Err(refused(format!("has `{}` {count} times", self.after)).into()),
        };
        let at = file[start..]
            .find(self.text)
            .ok_or_else(|| refused(format!("has no `{}` after `{}`", self.text, self.after)))?;
        Ok(start + at..start + at + self.text.len())
    }
}

const CHUNKED: &str = "kernels-gpu/src/chunked.rs";
const ONLINE: &str = "kernels-gpu/src/online.rs";
const PACKED: &str = "kernels-gpu/src/packed.rs";
const REDUCE: &str = "kernels-gpu/src/reduce.rs";
const SCORED: &str = "kernels-gpu/src/scored.rs";
const SCORES: &str = "kernels-gpu/src/scores.rs";
const STAGE: &str = "kernels-gpu/src/stage.rs";
const STREAM: &str = "kernels-gpu/src/stream.rs";
const TILE: &str = "kernels-gpu/src/tile.rs";
const WARP: &str = "kernels-gpu/src/warp.rs";

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "identity 0 instead of -inf: elements past the row's end",
        file: TILE,
        after: "pub fn load<In: Element>",
        text: "[[f32::NEG_INFINITY; V]; STEPS]",
        replacement: "[[0.0; V]; STEPS]",
    },
    Fault {
        name: "identity 0 instead of -inf: lanes without a partial",
        file: REDUCE,
        after: "let own = if index < count",
        text: "Partial::EMPTY",
        replacement: "Partial { max: 0.0, sum: Pair::ZERO }",
    },
    Fault {
        name: "identity 0 instead of -inf: the running partial",
        file: STREAM,
        after: "let whole = loop",
        text: "Partial::EMPTY",
        replacement: "Partial { max: 0.0, sum: crate::online::Pair::ZERO }",
    },
    Fault {
        name: "missing rescale: merging one by one",
        file: ONLINE,
        after: "pub fn merge(self",
        text: "self\n                .sum_relative_to(max)",
        replacement: "self.sum",
    },
    Fault {
        name: "missing rescale: merging more partials than lanes",
        file: REDUCE,
        after: "while next < count {\n            sum",
        text: "partial(next).sum_relative_to(max)",
        replacement: "partial(next).sum",
    },
    Fault {
        name: "missing rescale: merging over lanes",
        file: REDUCE,
        after: "let max = lanes_max::<WARP>(own.max);",
        text: "own.sum_relative_to(max)",
        replacement: "own.sum",
    },
    Fault {
        name: "missing rescale: results of a part",
        file: ONLINE,
        after: "Self::Normalise(_) if !Partial::can_refer",
        text: "whole.for_part(part_max, whole_max)",
        replacement: "whole",
    },
    Fault {
        name: "stride replaced by length: warp",
        file: WARP,
        after: "pub unsafe fn softmax",
        text: "layout.locate(row)",
        replacement: "(u64::from(row) * u64::from(cols), u64::from(row) * u64::from(cols))",
    },
    Fault {
        name: "stride replaced by length: in registers",
        file: CHUNKED,
        after: "let (tile, max, whole) = loop",
        text: "layout.locate(X::row())",
        replacement: "(u64::from(X::row()) * u64::from(cols), 0)",
    },
    Fault {
        name: "stride replaced by length: staged",
        file: CHUNKED,
        after: "let rows = |row: u32|",
        text: "layout.locate(row)",
        replacement: "(u64::from(row) * u64::from(cols), u64::from(row) * u64::from(cols))",
    },
    Fault {
        name: "stride replaced by length: parked",
        file: CHUNKED,
        after: "        // Opaque, so that addresses are computed where they are used, and not kept in registers meanwhile.\n        let (offset, _)",
        text: "layout.locate(opaque_u32(X::row()))",
        replacement: "(u64::from(X::row()) * u64::from(cols), 0)",
    },
    Fault {
        name: "stride replaced by length: stream",
        file: STREAM,
        after: "const { assert!",
        text: "layout.locate(block_idx_x())",
        replacement: "(u64::from(block_idx_x()) * u64::from(cols), u64::from(block_idx_x()) * u64::from(cols))",
    },
    Fault {
        name: "stride replaced by length: attention",
        file: SCORES,
        after: "this.innermost = at.innermost();",
        text: "at.place(|dim| layout.strides(dim).0)",
        replacement: "u64::from(row) * u64::from(cols)",
    },
    Fault {
        name: "mask applied after the exponential: what is hidden counts in the sum",
        file: SCORED,
        after: "each(z, |_, z| if z.is_nan()",
        text: "scores.has(Scores::KEEP | Scores::HIDE)",
        replacement: "false",
    },
    Fault {
        name: "mask as a large number instead of -inf",
        file: SCORED,
        after: "if scores.has(Scores::KEEP | Scores::HIDE) {",
        text: "f32::NEG_INFINITY",
        replacement: "-1e4",
    },
    Fault {
        name: "16-bit accumulation: elements of a lane",
        file: TILE,
        after: "sum = Some(match sum",
        text: "sum.plus_cut(four)",
        replacement: "{ let sum = sum.plus_cut(four); \
                      Pair { hi: f32::from_bits(sum.hi.to_bits() & 0xffff_0000), lo: 0.0 } }",
    },
    Fault {
        name: "16-bit accumulation: lanes",
        file: REDUCE,
        after: "pair = pair.plus::<A>",
        text: "pair.hi += warp_shuffle_xor(ALL_LANES, pair.hi, lane_mask, WARP).0;",
        replacement: "pair.hi += warp_shuffle_xor(ALL_LANES, pair.hi, lane_mask, WARP).0; \
                      pair.hi = f32::from_bits(pair.hi.to_bits() & 0xffff_0000);",
    },
    Fault {
        name: "16-bit accumulation: chunks",
        file: REDUCE,
        after: "sum = sum.plus::<Full>(Pair",
        text: "Partial { max, sum }",
        replacement: "Partial { max, sum: Pair { hi: f32::from_bits(sum.hi.to_bits() & 0xffff_0000), lo: 0.0 } }",
    },
    Fault {
        name: "tail store without bound: elements of a tile",
        file: TILE,
        after: "let bytes = V * size_of::<Out::Word>();",
        text: "if offset < left {\n                        let word = Out::narrow(self.values[step][i]);\n                        // SAFETY: in-bounds: the row's element.\n                        unsafe { to.at(u64::from(offset)).store_streaming(word) };\n                    }",
        replacement: "unsafe { to.at(u64::from(offset)).store_streaming(Out::narrow(self.values[step][i])) };",
    },
    Fault {
        name: "tail store without bound: vectors of a tile",
        file: TILE,
        after: "let bytes = V * size_of::<Out::Word>();",
        text: "if offset < left {\n                    // SAFETY: in-bounds: the row is whole vectors; aligned: from a multiple of their size on.\n                    unsafe { Out::store_wide(to.at(u64::from(offset)), self.values[step]) };\n                }",
        replacement: "unsafe { Out::store_wide(to.at(u64::from(offset)), self.values[step]) };",
    },
    Fault {
        name: "tail store without bound: packed rows",
        file: TILE,
        after: "while i < in_vector - 1 {",
        text: "if offset + (i as u32) < left {\n                        put(offset + i as u32, word(i));\n                    }",
        replacement: "put(offset + i as u32, word(i));",
    },
    Fault {
        name: "tail store without bound: rows past the last",
        file: PACKED,
        after: "let cols_here =",
        text: "if row_in_warp < rows_here { cols } else { 0 }",
        replacement: "cols",
    },
    Fault {
        name: "tail store without bound: attention",
        file: SCORED,
        after: "let key = key + i as u32;",
        text: "if key < self.row.cols {\n                        // SAFETY: in-bounds: the row's element.\n                        unsafe {\n                            y.at(key.into())\n                                .store_streaming(Out::narrow_any(results[i]));\n                        }\n                    }",
        replacement: "unsafe { y.at(key.into()).store_streaming(Out::narrow_any(results[i])); }",
    },
    Fault {
        name: "tail store without bound: a span's last elements",
        file: STAGE,
        after: "(end_vector * Self::PER_VECTOR).max(head_end) + (lane - 8),\n                end,",
        text: "if i < end && lane < 16 {\n            element(i);\n        }",
        replacement: "if lane < 16 { element(i); }",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn every_fault_still_applies() {
        for fault in FAULTS {
            let text = std::fs::read_to_string(workspace().join(fault.file)).unwrap();
            fault.place(&text).unwrap();
        }
    }
}
