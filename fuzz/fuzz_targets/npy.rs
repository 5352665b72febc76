#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| warp_softmax_fuzz::npy(data));
