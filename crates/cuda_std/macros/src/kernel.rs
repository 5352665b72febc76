//! What `#[kernel]` accepts and what it makes of it.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{FnArg, Ident, ItemFn, LitInt, ReturnType, Token, Type};

/// The most threads a block may have, on every architecture.
const MAX_BLOCK_THREADS: u32 = 1024;

/// The options of the attribute; 0 where not given.
#[derive(Default)]
pub struct LaunchBounds {
    max_threads: u32,
    min_blocks: u32,
}

impl Parse for LaunchBounds {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut bounds = Self::default();
        while !input.is_empty() {
            let option: Ident = input.parse()?;
            let (field, most) = match option.to_string().as_str() {
                "max_threads" => (&mut bounds.max_threads, MAX_BLOCK_THREADS),
                "min_blocks" => (&mut bounds.min_blocks, u32::MAX),
                other => {
                    return Err(syn::Error::new(
                        option.span(),
                        format!(
                            "unknown option `{other}`; there are `max_threads` and `min_blocks`"
                        ),
                    ));
                }
            };
            if *field > 0 {
                let problem = format!("`{option}` is given twice");
                return Err(syn::Error::new(option.span(), problem));
            }
            input.parse::<Token![=]>()?;
            let literal: LitInt = input.parse()?;
            *field = literal.base10_parse()?;
            if !(1..=most).contains(field) {
                let problem = format!("`{option}` is {literal}; it must be 1 to {most}");
                return Err(syn::Error::new(literal.span(), problem));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if bounds.min_blocks > 0 && bounds.max_threads == 0 {
            return Err(syn::Error::new(
                Span::call_site(),
                "`min_blocks` needs `max_threads`: PTX gives it no meaning alone",
            ));
        }
        Ok(bounds)
    }
}

/// The device entry and the host function with its `KERNEL`, or why `function` cannot be a kernel.
pub fn expand(bounds: &LaunchBounds, function: &ItemFn) -> syn::Result<TokenStream> {
    let types = parameter_types(function)?;
    let device = device_entry(bounds, function);
    let host = host_kernel(bounds, function, &types);
    let assertions = types.iter().map(|ty| {
        // The parameter's own span, so that the error points at it.
        quote_spanned! { ty.span() =>
            const _: () = ::cuda_std::assert_kernel_parameter::<#ty>();
        }
    });
    Ok(quote! {
        #device
        #host
        #(#assertions)*
    })
}

/// The types of the parameters of a function that may be a kernel.
fn parameter_types(function: &ItemFn) -> syn::Result<Vec<&Type>> {
    let signature = &function.sig;
    if signature.unsafety.is_none() {
        return Err(syn::Error::new(
            signature.fn_token.span,
            "a kernel must be an `unsafe fn`: whoever launches it vouches for its pointers",
        ));
    }
    if let Some(token) = &signature.constness {
        return Err(syn::Error::new(token.span, "a kernel cannot be `const`"));
    }
    if let Some(token) = &signature.asyncness {
        return Err(syn::Error::new(token.span, "a kernel cannot be `async`"));
    }
    if let Some(abi) = &signature.abi {
        return Err(syn::Error::new(
            abi.span(),
            "a kernel has no ABI of its own: the attribute sets it",
        ));
    }
    if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
        let generics = &signature.generics;
        return Err(syn::Error::new(
            generics.span(),
            "a kernel cannot be generic: an entry has one symbol; let it call a generic function",
        ));
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        return Err(syn::Error::new(
            ty.span(),
            "a kernel returns nothing: it writes its result through a pointer",
        ));
    }
    if let Some(variadic) = &signature.variadic {
        return Err(syn::Error::new(
            variadic.span(),
            "a kernel cannot be variadic",
        ));
    }
    signature
        .inputs
        .iter()
        .map(|input| match input {
            FnArg::Typed(parameter) => Ok(&*parameter.ty),
            FnArg::Receiver(receiver) => Err(syn::Error::new(
                receiver.span(),
                "a kernel cannot be a method: make it a free function",
            )),
        })
        .collect()
}

fn device_entry(bounds: &LaunchBounds, function: &ItemFn) -> TokenStream {
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
    } = function;
    let name = &sig.ident;
    let inputs = &sig.inputs;
    let LaunchBounds {
        max_threads,
        min_blocks,
    } = bounds;
    let launch_comment = (*max_threads > 0).then(|| {
        let comment = format!("// launch {name} {max_threads} {min_blocks}");
        quote! {
            #[cfg(target_arch = "nvptx64")]
            ::core::arch::global_asm!(#comment);
        }
    });
    quote! {
        #launch_comment
        // An assembly declaration reaches the PTX of its own crate only, so every entry brings the one of
        // dynamic shared memory; PTX allows it to be repeated.
        #[cfg(target_arch = "nvptx64")]
        ::core::arch::global_asm!(".extern .shared .align 128 .b8 cuda_std_dynamic_shared[];");

        #[cfg(target_arch = "nvptx64")]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #vis unsafe extern "ptx-kernel" fn #name(#inputs) #block
    }
}

fn host_kernel(bounds: &LaunchBounds, function: &ItemFn, types: &[&Type]) -> TokenStream {
    let vis = &function.vis;
    let name = &function.sig.ident;
    let name_text = name.to_string();
    let LaunchBounds {
        max_threads,
        min_blocks,
    } = bounds;
    let index = 0..types.len();
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #function

        // An empty type of the same name: functions and types do not share names.
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #vis enum #name {}

        #[cfg(not(target_arch = "nvptx64"))]
        impl #name {
            #[doc(hidden)]
            pub const KERNEL: ::cuda_std::emulator::Kernel = {
                /// # Safety
                ///
                /// `parameters` points at one pointer a parameter, each to a live value of its type; the rest
                /// is the kernel's own contract.
                unsafe fn call(parameters: *const *const ::core::ffi::c_void) {
                    // SAFETY: one pointer a parameter, each to a live value of its type, by this function's
                    // contract, which also hands on the kernel's own.
                    unsafe { #name(#((*parameters.add(#index)).cast::<#types>().read()),*) }
                }
                ::cuda_std::emulator::Kernel {
                    name: #name_text,
                    max_threads: #max_threads,
                    min_blocks: #min_blocks,
                    param_bytes: &[#(::core::mem::size_of::<#types>()),*],
                    call,
                }
            };
        }
    }
}
