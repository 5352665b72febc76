//! The `#[kernel]` attribute of `cuda_std`.

mod kernel;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Makes a function a kernel entry point.
///
/// On the device the function becomes a PTX entry of the same name, and its launch bounds stand in the
/// PTX as the comment `// launch NAME MAX_THREADS MIN_BLOCKS`, 0 for what is not given, from which
/// `cuda_builder` writes `.maxntid` and `.minnctapersm`; there is no comment where neither is given. On the
/// host it stays a plain function, and `NAME::KERNEL` describes it to the emulator.
///
/// | option | meaning |
/// |---|---|
/// | `max_threads = N` | no launch has more than `N` threads a block, 1 to 1,024 |
/// | `min_blocks = N` | the compiler keeps registers few enough for `N` resident blocks an SM; needs `max_threads` |
///
/// The function is `unsafe` (its caller vouches for the pointers), free, not generic, returns nothing, and
/// each parameter is `Copy`: a launch copies parameters bit by bit and drops none.
///
/// The crate that holds the kernels needs, for the device alone, the features `abi_ptx` and
/// `asm_experimental_arch`.
#[proc_macro_attribute]
pub fn kernel(options: TokenStream, item: TokenStream) -> TokenStream {
    let bounds = parse_macro_input!(options as kernel::LaunchBounds);
    let function = parse_macro_input!(item as syn::ItemFn);
    kernel::expand(&bounds, &function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
