//! The program of `examples/attention_weights`, run in this process.

#[allow(dead_code, reason = "`main` is for the program itself")]
#[path = "../examples/attention_weights/main.rs"]
mod attention_weights;

use std::fs;
use std::path::Path;

fn run(arguments: &[&str]) -> Result<String, String> {
    let mut report = Vec::new();
    attention_weights::run(lexopt::Parser::from_args(arguments), &mut report)
        .map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(report).expect("the report is text"))
}

#[test]
fn weights_are_right_and_drawn() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attention_weights");
    let folder = folder.to_str().expect("the path is text");
    // An error beyond the promised one would end the program with an error of its own.
    for options in [
        &[][..],
        &["--causal"],
        &["--window", "4,2", "--soft-cap", "2.5"],
        &["--causal", "--soft-cap", "30", "--sentence", "0"],
    ] {
        let report = run(&[options, &[folder]].concat()).unwrap();
        let is_compared = report.contains("the weights that the model itself computed");
        assert_eq!(is_compared, options.is_empty(), "{report}");
        for line in [
            "device ",
            "scores ",
            "plan ",
            "error ",
            "logsumexp",
            "written ",
        ] {
            assert!(report.contains(line), "no `{line}` in:\n{report}");
        }
    }
    for head in 0..12 {
        assert!(Path::new(folder).join(format!("head-{head}.png")).is_file());
    }
    let bytes = fs::read(Path::new(folder).join("weights.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("weights").unwrap().shape(), [8, 12, 41, 41]);
}

#[test]
fn help_and_mistakes_are_answered() {
    assert!(run(&["--help"]).unwrap().contains("--soft-cap C"));
    for (arguments, part) in [
        (&[][..], "no folder to write to"),
        (&["--window", "3", "x"], "--window takes two numbers"),
        (&["--sentence", "8", "x"], "there is no sentence 8"),
        (
            &["--soft-cap", "-1", "x"],
            "a soft cap of -1.0 is no positive normal number",
        ),
    ] {
        let error = run(arguments).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}
