//! Arithmetic of stated bits: the device and the host give the same result, NaN payloads included.

/// The NaN that the device's f32 arithmetic returns.
#[cfg(not(target_arch = "nvptx64"))]
const CANONICAL_NAN: f32 = f32::from_bits(0x7fff_ffff);

/// One assembly instruction of `$class` registers, without memory and without effects.
#[cfg(target_arch = "nvptx64")]
macro_rules! instruction {
    ($mnemonic:literal, $class:ident $type:ty, $($operand:ident),+) => {{
        let result: $type;
        // SAFETY: register arithmetic, defined for every operand.
        unsafe {
            core::arch::asm!(
                concat!($mnemonic, " {result}" $(, ", {", stringify!($operand), "}")+, ";"),
                result = out($class) result,
                $($operand = in($class) $operand,)+
                options(pure, nomem, nostack),
            );
        }
        result
    }};
}

/// `a * b + c`, rounded once to nearest even. Subnormals are kept.
///
/// A NaN result has unspecified payload and sign on both targets.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    by_target! {
        device: core::f32::math::mul_add(a, b, c),
        host: host::fma(a, b, c),
    }
}

/// `a / b`, rounded to nearest even. Subnormals are kept.
///
/// A NaN result has unspecified payload and sign on both targets.
#[inline(always)]
pub fn div(a: f32, b: f32) -> f32 {
    a / b
}

/// The larger of `a` and `b`; NaN (`0x7fff_ffff`) if either is NaN; +0 is above -0. Subnormals are kept.
#[inline(always)]
pub fn max_nan(a: f32, b: f32) -> f32 {
    by_target! {
        device: instruction!("max.NaN.f32", reg32 f32, a, b),
        host: if a.is_nan() || b.is_nan() {
            CANONICAL_NAN
        } else if a > b || (a == b && a.is_sign_positive()) {
            a
        } else {
            b
        },
    }
}

/// The smaller of `a` and `b`; NaN (`0x7fff_ffff`) if either is NaN; -0 is below +0. Subnormals are kept.
#[inline(always)]
pub fn min_nan(a: f32, b: f32) -> f32 {
    by_target! {
        device: instruction!("min.NaN.f32", reg32 f32, a, b),
        host: if a.is_nan() || b.is_nan() {
            CANONICAL_NAN
        } else if a < b || (a == b && a.is_sign_negative()) {
            a
        } else {
            b
        },
    }
}

/// About `2^a`, by the device's own instruction: relative error at most 2^-22, subnormal results are 0.
///
/// The one function here whose bits are not stated: the host's differ in the last places.
#[inline(always)]
pub fn ex2_approx(a: f32) -> f32 {
    by_target! {
        device: instruction!("ex2.approx.ftz.f32", reg32 f32, a),
        host: {
            let result = f64::from(a).exp2() as f32;
            if result.is_subnormal() { 0.0 } else { result }
        },
    }
}

/// The low 32 bits of `high` and `low`, 64 bits in all, shifted right by `bits` modulo 32.
#[inline(always)]
pub fn funnel_shift_right(low: u32, high: u32, bits: u32) -> u32 {
    by_target! {
        device: instruction!("shf.r.wrap.b32", reg32 u32, low, high, bits),
        host: ((u64::from(high) << 32 | u64::from(low)) >> (bits % 32)) as u32,
    }
}

/// A copy of a register that is not `pure`: one that may be merged with another is not opaque. What is said before it goes
/// with it.
#[cfg(target_arch = "nvptx64")]
macro_rules! opaque {
    ($value:expr $(, $before:literal)?) => {{
        let opaque: u32;
        // SAFETY: copies a register.
        unsafe {
            core::arch::asm!(
                $($before,)?
                "mov.b32 {opaque}, {value};",
                opaque = out(reg32) opaque,
                value = in(reg32) $value,
                options(nomem, nostack),
            );
        }
        opaque
    }};
}

/// `value`, of which the compiler knows nothing more.
///
/// Values derived from it are then computed where they are used, instead of being kept in registers from the
/// first place that could compute them.
#[inline(always)]
pub fn opaque_u32(value: u32) -> u32 {
    by_target! { device: opaque!(value), host: value }
}

/// `value`, opaque, at the head of a loop that is to stay one: neither compiler unrolls a loop whose counter comes from here.
#[inline(always)]
pub fn rolled_u32(value: u32) -> u32 {
    by_target! { device: opaque!(value, ".pragma \"nounroll\";"), host: value }
}

/// `a / b` without the check for a zero divisor, which would bring a panic into the kernel.
///
/// # Safety
///
/// **nonzero**: `b` is not 0.
#[inline(always)]
pub unsafe fn unchecked_div_u32(a: u32, b: u32) -> u32 {
    // SAFETY: nonzero: this function's own contract.
    unsafe { a.checked_div(b).unwrap_unchecked() }
}

/// The high 32 bits of the 64-bit product.
#[inline(always)]
pub fn mul_hi_u32(a: u32, b: u32) -> u32 {
    ((a as u64 * b as u64) >> 32) as u32
}

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    /// `f32::mul_add` where the build targets a CPU that has the instruction.
    #[cfg(any(target_feature = "fma", not(target_arch = "x86_64")))]
    #[inline(always)]
    pub fn fma(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    /// On plain x86-64 `f32::mul_add` is a library call; nearly every such CPU has the instruction.
    #[cfg(all(target_arch = "x86_64", not(target_feature = "fma")))]
    #[inline(always)]
    pub fn fma(a: f32, b: f32, c: f32) -> f32 {
        if !std::arch::is_x86_feature_detected!("fma") {
            return a.mul_add(b, c);
        }
        let mut result = a;
        // SAFETY: the CPU has FMA; register arithmetic. A function with `target_feature` would not be inlined.
        unsafe {
            std::arch::asm!(
                "vfmadd213ss {result}, {b}, {c}",
                result = inout(xmm_reg) result,
                b = in(xmm_reg) b,
                c = in(xmm_reg) c,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        result
    }
}
