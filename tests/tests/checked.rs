//! The checked emulator on the public interface: silent where all is right, and precise where it is not.

use cuda_std::emulator::{Checks, FaultKind, allocate, checked, free};
use half::{bf16, f16};
use warp_softmax::{Align, Device, Error, Softmax, TensorView};

/// Lengths for every way of covering a row that the plan takes.
const LENGTHS: [usize; 9] = [1, 33, 1_000, 1_025, 4_096, 5_001, 16_384, 50_257, 300_000];

#[test]
fn every_operation_passes_on_the_checked_emulator() {
    let device = Device::emulator().checked();
    for cols in LENGTHS {
        macro_rules! forward {
            ($($elem:ty),*) => {$(
                let data: Vec<$elem> =
                    (0..2 * cols).map(|i| <$elem>::from((i % 7) as u8)).collect();
                let mut x = device.tensor_from(&data, [2, cols]).unwrap();
                let y = Softmax::new().forward(&x).unwrap();
                Softmax::new().forward_in_place(&mut x).unwrap();
                assert_eq!(x.to_vec().unwrap(), y.to_vec().unwrap());
                // Results are inputs: every element of them has been written.
                let (z, sums) = Softmax::new().forward_with_logsumexp(&y).unwrap();
                Softmax::new().masked().causal(Align::BottomRight).log_softmax(&z).unwrap();
                Softmax::new().forward(&sums).unwrap();
            )*};
        }
        forward!(f32, f16, bf16);
    }
}

#[test]
fn it_says_that_it_is_checked_and_so_do_its_streams() {
    let device = Device::emulator().checked();
    for device in [
        device.clone(),
        device.new_stream().unwrap(),
        device.checked(),
    ] {
        assert!(device.name().starts_with("checked emulator"), "{device:?}");
    }
    assert!(!Device::emulator().name().contains("checked"));
}

/// The fault of a softmax of the f32s at `address`.
fn fault_of(device: &Device, address: u64, cols: usize) -> Option<FaultKind> {
    let first = core::ptr::with_exposed_provenance::<f32>(address as usize);
    // SAFETY: broken on purpose: whether the memory is live and written is what the emulator is to tell.
    let x = unsafe { TensorView::from_raw(device, first, cols, [1, cols], [cols, 1]) };
    match Softmax::new().forward(x.unwrap()) {
        Ok(_) => None,
        Err(Error::Fault(fault)) => Some(fault.kind),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_view_of_a_dropped_tensor_is_at_fault() {
    let device = Device::emulator().checked();
    let line = line!() + 1;
    let x = device.tensor_from(&[1.0f32; 100], [100]).unwrap();
    let address = x.address();
    assert_eq!(fault_of(&device, address, 100), None);
    drop(x);
    let kind = fault_of(&device, address, 100).expect("a fault");
    match &kind {
        FaultKind::Freed { made_at, .. } => {
            assert!(made_at.file.ends_with("checked.rs"), "{made_at}");
            assert_eq!(made_at.line, line);
        }
        _ => panic!("{kind}"),
    }
}

#[test]
fn a_load_of_what_nobody_has_written_is_at_fault() {
    let device = Device::emulator().checked();
    let made_at = std::panic::Location::caller();
    let address = checked(Checks::ALL, || allocate(400, made_at)).expect("memory");
    let kind = fault_of(&device, address, 100).expect("a fault");
    assert!(matches!(kind, FaultKind::Unwritten { .. }), "{kind}");
    // What is written is not.
    cuda_std::emulator::set_written(address, 396);
    assert_eq!(fault_of(&device, address, 99), None);
    let kind = fault_of(&device, address, 100).expect("a fault");
    assert!(matches!(kind, FaultKind::Unwritten { .. }), "{kind}");
    // SAFETY: allocated with as many bytes; nothing uses it any more.
    unsafe { free(address, 400) };
}
