//! Lets the linker find `-lcuda`, which `cust_raw` asks for, in an archive with nothing in it.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&root).join("link/lib64");
    println!("cargo::rustc-link-search=native={}", folder.display());
}
