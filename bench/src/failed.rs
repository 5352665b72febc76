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
        Self(error.chain())
    }
}

impl From<lexopt::Error> for Failed {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told() {
        let error = warp_softmax::Error::NoDriver {
            source: "it is not there".into(),
        };
        assert_eq!(
            Failed::from(error).to_string(),
            "no GPU can be used: it is not there"
        );
    }
}
