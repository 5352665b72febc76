//! Why something could not be done, in words.

use std::fmt;

/// An error whose text is all there is to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed(String);

impl Failed {
    /// With this text.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl From<warp_softmax::Error> for Failed {
    fn from(error: warp_softmax::Error) -> Self {
        // Its text names what is behind it.
        Self(error.to_string())
    }
}

impl From<lexopt::Error> for Failed {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}
