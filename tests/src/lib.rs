//! What the suites in `tests/` share.
//!
//! | module | what |
//! |---|---|
//! | [`mod@format`] | data types as the tests know them; the one table of tolerances |
//! | [`oracle`] | softmax in f64, and the comparison with it |
//! | [`mod@reference`] | softmax to the bit, by the trees that are promised |
//! | [`content`], [`random`] | what stands in a row |
//! | [`conspiracy`] | rows made for the largest error |
//! | [`case`] | one softmax call, down to where every row lies |
//! | [`strategy`], [`property`] | what proptest draws, and how a failure is kept |
//! | [`schedule`] | the emulator's order, and its checks |
//! | [`lengths`] | row lengths at which something changes |
//! | [`backend`] | the devices of this machine, and one call on one of them |
//! | [`runner`] | one runner: a case on every backend by every way, checked and counted |
//! | [`attention`] | scores with masks and all else that attention does to them: cases, oracle and comparison |
//! | [`drawn_scores`] | such cases of every shape and content |
//! | [`parameter`] | parameters of kernels that a test launches itself |
//! | [`settings`] | environment variables |

pub mod attention;
pub mod backend;
pub mod case;
pub mod conspiracy;
pub mod content;
pub mod drawn_scores;
pub mod format;
pub mod lengths;
pub mod oracle;
pub mod parameter;
pub mod property;
pub mod random;
pub mod reference;
pub mod runner;
pub mod schedule;
pub mod settings;
pub mod strategy;
