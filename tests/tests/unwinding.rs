//! The first call of a process, made while its thread unwinds. In a file of its own, since any other test would be the
//! first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use warp_softmax::{Device, Softmax};

/// Calls the library when it is dropped.
struct Late<'a> {
    weights: &'a mut Vec<f32>,
}

impl Drop for Late<'_> {
    fn drop(&mut self) {
        let device = Device::emulator();
        let x = device.tensor_from(&[1.0f32, 1.0], [2]).unwrap();
        *self.weights = Softmax::new().forward(&x).unwrap().to_vec().unwrap();
    }
}

#[test]
fn a_drop_may_call_while_a_panic_unwinds() {
    let mut weights = Vec::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _late = Late {
            weights: &mut weights,
        };
        panic!("on purpose")
    }));
    assert!(panicked.is_err());
    assert_eq!(weights, [0.5, 0.5]);
}
