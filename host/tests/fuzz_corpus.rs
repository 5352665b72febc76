//! What is fuzzed, run over the corpus: no fuzzer needed.

#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

use std::fs;
use std::path::Path;

#[test]
fn the_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, target) in fuzz::TARGETS {
        let folder = corpus.join(name);
        let mut ran = 0;
        for file in
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = file.expect("a folder's entry").path();
            println!("{}", path.display());
            target(&fs::read(&path).expect("a file of the corpus"));
            ran += 1;
        }
        assert!(ran > 0, "nothing in {}", folder.display());
    }
}
