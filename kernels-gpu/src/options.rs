//! What a call asks for besides its tensors: one small struct that every kernel takes by value.

use cuda_std::ext::programmatic;

/// What a row with no element left gives: every element masked, or every input -inf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
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
#[repr(u8)]
pub enum NanPolicy {
    /// Its whole row becomes NaN, and no other row.
    #[default]
    Propagate = 0,
    /// It counts as masked: it takes no part, and its own result is 0.
    Ignore = 1,
}

/// When a launch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StreamOrder {
    /// When the work ahead of it on the stream has ended.
    #[default]
    AfterPrevious = 0,
    /// While the kernel ahead of it is ending: the launched kernel itself waits, and lets the one behind it begin early in
    /// turn. Where a device has no such thing, as the other.
    Programmatic = 1,
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
    /// When the launch begins.
    pub order: StreamOrder,
}

impl Options {
    /// To be called before memory is touched.
    #[inline(always)]
    pub fn begin(&self) {
        // Not for every launch: saying it costs each block something, a fifth of the time of blocks of 2 KiB.
        if self.order == StreamOrder::Programmatic {
            programmatic::begin();
        }
    }

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
            order: StreamOrder::AfterPrevious,
        }
    }
}
