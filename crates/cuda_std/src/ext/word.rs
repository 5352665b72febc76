//! The types that move between registers and memory in one access.

use access::Access;

/// Two 32-bit words that move in one 8-byte access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct U32x2(pub [u32; 2]);

/// Four 32-bit words that move in one 16-byte access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct U32x4(pub [u32; 4]);

/// A value that one access loads or stores: `u8`, `u16`, `u32`, `i32`, `f32`, `u64`, [`U32x2`], [`U32x4`].
///
/// Its address must be a multiple of its size. Every bit pattern is a value.
pub trait Word: Access {}

mod access {
    //! The device's accesses. On both targets this trait seals [`Word`](super::Word).
    //!
    //! Loads are `pure, readonly`: the compiler may reorder, merge or drop them among themselves, and moves
    //! none across a store or a barrier, as those count as writes to memory.

    /// # Safety
    ///
    /// Of each method: `address` is a multiple of the size, and lies in memory of the named space that may be
    /// accessed so.
    pub trait Access: Copy + 'static {
        #[cfg(target_arch = "nvptx64")]
        #[allow(missing_docs)]
        unsafe fn load_global(address: u64) -> Self;
        #[cfg(target_arch = "nvptx64")]
        #[allow(missing_docs)]
        unsafe fn load_global_streaming(address: u64) -> Self;
        #[cfg(target_arch = "nvptx64")]
        #[allow(missing_docs)]
        unsafe fn store_global(self, address: u64);
        #[cfg(target_arch = "nvptx64")]
        #[allow(missing_docs)]
        unsafe fn store_global_streaming(self, address: u64);
        #[cfg(target_arch = "nvptx64")]
        #[allow(missing_docs)]
        unsafe fn load_shared(address: u32) -> Self;
        #[cfg(target_arch = "nvptx64")]
        #[allow(missing_docs)]
        unsafe fn store_shared(self, address: u32);
    }
}

#[cfg(target_arch = "nvptx64")]
macro_rules! load {
    ($instruction:expr, $address:ident: $address_class:ident, $class:ident $register:ty, [$($lane:ident),+] $list:literal) => {
        // SAFETY: the method's own contract; the assembly reads memory and nothing else.
        unsafe {
            core::arch::asm!(
                concat!($instruction, " ", $list, ", [{address}];"),
                $($lane = out($class) $lane,)+
                address = in($address_class) $address,
                options(pure, readonly, nostack),
            )
        }
    };
}

#[cfg(target_arch = "nvptx64")]
macro_rules! store {
    ($instruction:expr, $address:ident: $address_class:ident, $class:ident $register:ty, [$($lane:ident),+] $list:literal) => {
        // SAFETY: the method's own contract.
        unsafe {
            core::arch::asm!(
                concat!($instruction, " [{address}], ", $list, ";"),
                $($lane = in($class) $lane,)+
                address = in($address_class) $address,
                options(nostack),
            )
        }
    };
}

/// `$type` is `$suffix` in the instruction, and the `$lane`s in registers, each a `$register`.
macro_rules! words {
    ($($type:ty: $suffix:literal, $class:ident $register:ty, [$($lane:ident),+] $list:literal,
        $pack:expr, $value:pat => $unpack:expr;)*) => {$(
        impl Word for $type {}
        impl Access for $type {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_global(address: u64) -> Self {
                $(let $lane: $register;)+
                load!(concat!("ld.global.", $suffix), address: reg64, $class $register, [$($lane),+] $list);
                $pack
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_global_streaming(address: u64) -> Self {
                $(let $lane: $register;)+
                load!(concat!("ld.global.cs.", $suffix), address: reg64, $class $register, [$($lane),+] $list);
                $pack
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_global(self, address: u64) {
                let $value = self;
                let [$($lane),+]: [$register; _] = $unpack;
                store!(concat!("st.global.", $suffix), address: reg64, $class $register, [$($lane),+] $list);
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_global_streaming(self, address: u64) {
                let $value = self;
                let [$($lane),+]: [$register; _] = $unpack;
                store!(concat!("st.global.cs.", $suffix), address: reg64, $class $register, [$($lane),+] $list);
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn load_shared(address: u32) -> Self {
                $(let $lane: $register;)+
                load!(concat!("ld.shared.", $suffix), address: reg32, $class $register, [$($lane),+] $list);
                $pack
            }
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn store_shared(self, address: u32) {
                let $value = self;
                let [$($lane),+]: [$register; _] = $unpack;
                store!(concat!("st.shared.", $suffix), address: reg32, $class $register, [$($lane),+] $list);
            }
        }
    )*};
}

words! {
    u8: "u8", reg16 u16, [a] "{a}", a as u8, v => [v as u16];
    u16: "b16", reg16 u16, [a] "{a}", a, v => [v];
    u32: "b32", reg32 u32, [a] "{a}", a, v => [v];
    i32: "b32", reg32 u32, [a] "{a}", a as i32, v => [v as u32];
    f32: "b32", reg32 u32, [a] "{a}", f32::from_bits(a), v => [v.to_bits()];
    u64: "b64", reg64 u64, [a] "{a}", a, v => [v];
    U32x2: "v2.b32", reg32 u32, [a, b] "{{{a}, {b}}}", U32x2([a, b]), U32x2(v) => v;
    U32x4: "v4.b32", reg32 u32, [a, b, c, d] "{{{a}, {b}, {c}, {d}}}", U32x4([a, b, c, d]), U32x4(v) => v;
}
