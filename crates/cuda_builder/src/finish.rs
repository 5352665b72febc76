//! From the compiler's assembly to a finished module.

use std::collections::BTreeMap;

use crate::BuildError;
use crate::arch::{NvptxArch, PINNED_RUSTC};
use crate::ptx::{Body, HASH_COMMENT, entry_name, identifiers};

/// Part of the source hash: count it up when [`finish`] writes something else for the same input.
pub(crate) const FORMAT: &str = "ptx format 1";

/// Written by `#[kernel]`, since Rust has no launch bounds: `// launch NAME THREADS BLOCKS`.
const LAUNCH_COMMENT: &str = "// launch ";

/// Makes the compiler's assembly a finished module.
///
/// Launch bounds move from comments into the entries, comments go, entries come last, and what could
/// differ between machines is replaced. A module that could not be loaded, or whose kernels keep data
/// in local memory, is refused.
pub(crate) fn finish(
    assembly: &str,
    crate_name: &str,
    arch: NvptxArch,
    source_hash: &str,
) -> Result<String, BuildError> {
    let module = Module::parse(assembly)?;
    module.refuse_external_functions()?;
    module.refuse_local_memory()?;

    let mut text = format!(
        "// Made by cuda_builder from the Rust crate `{crate_name}`. Do not edit.\n\
         // rustc {PINNED_RUSTC}, {arch}\n\
         {HASH_COMMENT}{source_hash}\n"
    );
    let mut write = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    module.declarations.iter().for_each(|line| write(line));
    let mut bounds = launch_bounds(assembly)?;
    let (entries, functions): (Vec<_>, Vec<_>) = module.functions.iter().partition(|f| f.entry);
    for function in functions.into_iter().chain(entries) {
        write("");
        let mut bounds = bounds.remove(function.name);
        for line in &function.lines {
            if *line == "{" {
                // Only the first brace opens the body.
                bounds.take().iter().flatten().for_each(|line| write(line));
            }
            write(line);
        }
    }
    if let Some((name, _)) = bounds.pop_first() {
        return Err(BuildError::LaunchBounds {
            comment: format!("{LAUNCH_COMMENT}{name} .."),
            reason: "the module has no such entry",
        });
    }
    Ok(rename_hashed_symbols(text, &module))
}

/// The compiler's assembly, taken apart; comments and empty lines are gone.
#[derive(Default)]
struct Module<'a> {
    /// Directives, variables, and the signatures of functions that come later.
    declarations: Vec<&'a str>,
    functions: Vec<Function<'a>>,
    /// The names of functions that the module calls and does not have.
    external: Vec<&'a str>,
}

/// An entry or a function, with its body.
struct Function<'a> {
    name: &'a str,
    entry: bool,
    lines: Vec<&'a str>,
}

impl<'a> Module<'a> {
    fn parse(assembly: &'a str) -> Result<Self, BuildError> {
        let mut module = Self::default();
        let mut lines = assembly
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty() && !line.trim_start().starts_with("//"));
        while let Some(line) = lines.next() {
            let entry = entry_name(line);
            let Some(name) = entry.or_else(|| function_name(line)) else {
                // Each kernel declares the dynamic shared memory.
                let again = line.starts_with(".extern ") && module.declarations.contains(&line);
                if !again {
                    module.declarations.push(line);
                }
                continue;
            };
            // To the closing brace of the body, or to the semicolon where there is no body.
            let (mut function, mut body) = (Vec::new(), Body::default());
            let mut line = line;
            let has_body = loop {
                function.push(line);
                if body.ends_with(line) {
                    break true;
                }
                if line.ends_with(';') && !body.is_open() {
                    break false;
                }
                line = lines.next().ok_or_else(|| BuildError::MalformedPtx {
                    reason: format!("`{}` has no end", demangled(name)),
                })?;
            };
            if has_body {
                module.functions.push(Function {
                    name,
                    entry: entry.is_some(),
                    lines: function,
                });
            } else if function[0].starts_with(".extern") {
                module.external.push(name);
            } else {
                module.declarations.extend(function);
            }
        }
        Ok(module)
    }

    fn refuse_external_functions(&self) -> Result<(), BuildError> {
        let Some(external) = self.external.first() else {
            return Ok(());
        };
        Err(BuildError::ExternalFunction {
            function: demangled(external),
            callers: self.functions_with(|line| identifiers(line).any(|word| word == *external)),
        })
    }

    fn refuse_local_memory(&self) -> Result<(), BuildError> {
        let functions = self.functions_with(|line| {
            line.trim_start().starts_with(".local ") || line.contains("__local_depot")
        });
        if functions.is_empty() {
            return Ok(());
        }
        Err(BuildError::LocalMemory { functions })
    }

    /// The names of the functions in which `holds` is true of a line.
    fn functions_with(&self, holds: impl Fn(&str) -> bool) -> Vec<String> {
        let functions = self.functions.iter();
        let found = functions.filter(|function| function.lines.iter().any(|line| holds(line)));
        found.map(|function| demangled(function.name)).collect()
    }
}

/// The directives that launch comments ask for, by entry.
fn launch_bounds(assembly: &str) -> Result<BTreeMap<&str, Vec<String>>, BuildError> {
    let mut bounds = BTreeMap::new();
    for line in assembly.lines().map(str::trim) {
        let Some(launch) = line.strip_prefix(LAUNCH_COMMENT) else {
            continue;
        };
        let error = |reason| BuildError::LaunchBounds {
            comment: line.to_owned(),
            reason,
        };
        let words: Vec<_> = launch.split_whitespace().collect();
        let (name, threads, blocks) = match words[..] {
            [name, threads, blocks] => (name, threads.parse::<u32>(), blocks.parse::<u32>()),
            _ => return Err(error("there must be a name and two numbers")),
        };
        let (Ok(threads), Ok(blocks)) = (threads, blocks) else {
            return Err(error("threads and blocks must be whole numbers"));
        };
        let mut directives = Vec::new();
        if threads > 0 {
            directives.push(format!(".maxntid {threads}, 1, 1"));
        }
        if blocks > 0 {
            if threads == 0 {
                return Err(error("PTX gives blocks no meaning without threads"));
            }
            directives.push(format!(".minnctapersm {blocks}"));
        }
        bounds.insert(name, directives);
    }
    Ok(bounds)
}

/// Gives numbers to symbols whose names hold a hash.
///
/// Tables and functions of a module are named by a hash of the crate, its compiler and the compiler's
/// host; the same sources would make different bytes on another kind of machine.
fn rename_hashed_symbols(mut text: String, module: &Module<'_>) -> String {
    let functions = module.functions.iter().map(|function| function.name);
    let declared = module
        .declarations
        .iter()
        .flat_map(|line| identifiers(line));
    let mut hashed: Vec<&str> = Vec::new();
    for name in declared.chain(functions) {
        let has_hash = ["_R", "_ZN", "anon_$_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if has_hash && !name.contains("_param_") && !hashed.contains(&name) {
            hashed.push(name);
        }
    }
    let mut numbered: Vec<_> = hashed.into_iter().enumerate().collect();
    // Longest first: one name may be the beginning of another.
    numbered.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
    for (number, name) in numbered {
        text = text.replace(name, &format!("private_{number}"));
    }
    text
}

/// The symbol that a line declares as a function.
fn function_name(line: &str) -> Option<&str> {
    // At the beginning of the line or after a linkage: `.extern .func`.
    let (_, rest) = line.split_once(".func ")?;
    let rest = rest.trim_start();
    // The return value comes first: `(.param .b32 func_retval0) name`.
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?.1,
        None => rest,
    };
    identifiers(rest).next()
}

fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::{entries, recorded_hash};

    /// The shape of the compiler's output, in an order that is not a finished module's.
    const ASSEMBLY: &str = "\
//
// Generated by LLVM NVPTX Back-End
//

.version 7.0
.target sm_80
.address_size 64


// launch scale 256 4
.extern .shared .align 128 .b8 dynamic[];
// launch plain 0 0
.extern .shared .align 128 .b8 dynamic[];

.func  (.param .b32 func_retval0) _RNvCs4uFa2CaykzS_7kernels6lookup
(
	.param .b64 _RNvCs4uFa2CaykzS_7kernels6lookup_param_0
)
;
.global .align 4 .b8 anon_$_4b9e031d997f0f04294bdc30616b49cd_$_1[4] = {0, 0, 64, 64};
.global .align 4 .b8 anon_$_4b9e031d997f0f04294bdc30616b49cd_$_10[4] = {0, 0, 64, 65};
	// .globl	scale
.visible .entry scale(
	.param .u64 .ptr .align 1 scale_param_0
)
{
	.reg .b32 	%r<4>;

	// begin inline asm
	{ .reg .b32 %r1;
mov.b32 %r1, %r2;
}
	// end inline asm
	{ // callseq 0, 0
	call.uni (retval0), _RNvCs4uFa2CaykzS_7kernels6lookup, (param0);
	} // callseq 0
	ret;

}
.func  (.param .b32 func_retval0) _RNvCs4uFa2CaykzS_7kernels6lookup(
	.param .b64 _RNvCs4uFa2CaykzS_7kernels6lookup_param_0
)
{
	mov.b64 	%rd3, anon_$_4b9e031d997f0f04294bdc30616b49cd_$_1;
	mov.b64 	%rd4, anon_$_4b9e031d997f0f04294bdc30616b49cd_$_10;
	ret;
}
	// .globl	plain
.visible .entry plain()
{
	ret;
}
";

    fn finished(assembly: &str) -> Result<String, String> {
        finish(assembly, "kernels", NvptxArch::Compute80, "00ff").map_err(|error| error.to_string())
    }

    #[test]
    fn a_finished_module_has_header_functions_and_entries_in_this_order() {
        let text = finished(ASSEMBLY).unwrap();
        assert_eq!(
            text,
            "\
// Made by cuda_builder from the Rust crate `kernels`. Do not edit.
// rustc 1.95.0, sm_80
// source-hash: 00ff
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 128 .b8 dynamic[];
.func  (.param .b32 func_retval0) private_0
(
	.param .b64 private_0_param_0
)
;
.global .align 4 .b8 private_1[4] = {0, 0, 64, 64};
.global .align 4 .b8 private_2[4] = {0, 0, 64, 65};

.func  (.param .b32 func_retval0) private_0(
	.param .b64 private_0_param_0
)
{
	mov.b64 	%rd3, private_1;
	mov.b64 	%rd4, private_2;
	ret;
}

.visible .entry scale(
	.param .u64 .ptr .align 1 scale_param_0
)
.maxntid 256, 1, 1
.minnctapersm 4
{
	.reg .b32 	%r<4>;
	{ .reg .b32 %r1;
mov.b32 %r1, %r2;
}
	{ // callseq 0, 0
	call.uni (retval0), private_0, (param0);
	} // callseq 0
	ret;
}

.visible .entry plain()
{
	ret;
}
"
        );
        let names: Vec<_> = entries(&text)
            .unwrap()
            .into_iter()
            .map(|e| e.name)
            .collect();
        assert_eq!(names, ["scale", "plain"]);
        assert_eq!(recorded_hash(&text), Some("00ff"));
    }

    #[test]
    fn hashes_in_symbols_leave_no_trace() {
        let elsewhere = ASSEMBLY.replace("4uFa2CaykzS", "1xYz0").replace(
            "4b9e031d997f0f04294bdc30616b49cd",
            "00000000000000000000000000000001",
        );
        assert_ne!(elsewhere, ASSEMBLY);
        assert_eq!(finished(&elsewhere), finished(ASSEMBLY));
    }

    #[test]
    fn launch_bounds_of_zero_are_left_out() {
        let threads_alone = finished(&ASSEMBLY.replace("scale 256 4", "scale 128 0")).unwrap();
        assert!(
            threads_alone.contains(")\n.maxntid 128, 1, 1\n{\n"),
            "{threads_alone}"
        );
        let neither = finished(&ASSEMBLY.replace("scale 256 4", "scale 0 0")).unwrap();
        assert!(!neither.contains(".maxntid"), "{neither}");
    }

    #[test]
    fn launch_bounds_that_mean_nothing_are_refused() {
        for (bounds, reason) in [
            ("absent 256 4", "no such entry"),
            ("scale 0 4", "without threads"),
            ("scale 256", "a name and two numbers"),
            ("scale many 4", "whole numbers"),
        ] {
            let error = finished(&ASSEMBLY.replace("scale 256 4", bounds)).unwrap_err();
            assert!(error.contains(reason), "`{bounds}`: {error}");
            let name = bounds.split(' ').next().unwrap();
            let comment = format!("{LAUNCH_COMMENT}{name} ");
            assert!(error.contains(&comment), "`{bounds}`: {error}");
        }
    }

    #[test]
    fn an_external_function_is_refused_by_its_own_name_and_its_caller() {
        let declaration = "\
.extern .func _RNvNtCs8IoL4mMNSNl_4core9panicking18panic_bounds_check
(
	.param .b64 p0
)
.noreturn
;
";
        let call = "call.uni _RNvNtCs8IoL4mMNSNl_4core9panicking18panic_bounds_check, (p0);";
        let assembly = ASSEMBLY
            .replace(
                ".global .align 4",
                &format!("{declaration}.global .align 4"),
            )
            .replace("mov.b32 %r1, %r2;", call);
        let error = finished(&assembly).unwrap_err();
        assert!(
            error.starts_with("`core::panicking::panic_bounds_check` is called by `scale` and"),
            "{error}"
        );
    }

    #[test]
    fn local_memory_is_refused_by_the_name_of_the_entry() {
        let depot = "\t.local .align 16 .b8 \t__local_depot0[32];\nmov.b32 %r1, %r2;";
        let error = finished(&ASSEMBLY.replace("mov.b32 %r1, %r2;", depot)).unwrap_err();
        assert!(
            error.starts_with("local memory is used by `scale`:"),
            "{error}"
        );
    }

    #[test]
    fn a_function_without_an_end_is_refused() {
        let cut_off = ASSEMBLY.strip_suffix("}\n").unwrap();
        let error = finished(cut_off).unwrap_err();
        assert!(error.contains("`plain` has no end"), "{error}");
    }
}
