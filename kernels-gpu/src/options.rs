//! What a call asks for besides its tensors: one small struct that every kernel takes by value.

/// What a row with no element left gives: every element masked, or every input -inf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FullyMasked {
    /// All zeros, as attention wants it.
    #[default]
    Zero = 0,
    /// `1 / cols` everywhere.
    Uniform = 1,
    /// NaN everywhere, as the formula `0 / 0` has it.
    Nan = 2,
}

/// What a NaN among the inputs does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NanPolicy {
    /// Its whole row becomes NaN, and no other row.
    #[default]
    Propagate = 0,
    /// It counts as masked: it takes no part, and its own result is 0.
    Ignore = 1,
}

/// The run-time choices of one launch, the same for all its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Options {
    /// Every input is multiplied by this, rounded to f32 once.
    pub scale: f32,
    /// What a row with nothing left gives.
    pub fully_masked: FullyMasked,
    /// What a NaN among the inputs does.
    pub nan_policy: NanPolicy,
}

impl Options {
    /// From an input to what its exponential is taken of.
    #[inline(always)]
    pub fn transform(&self, x: f32) -> f32 {
        let z = self.scale * x;
        if self.nan_policy == NanPolicy::Ignore && z.is_nan() {
            f32::NEG_INFINITY
        } else {
            z
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scale: 1.0,
            fully_masked: FullyMasked::Zero,
            nan_policy: NanPolicy::Propagate,
        }
    }
}
