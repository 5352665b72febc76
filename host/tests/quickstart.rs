//! The program of `examples/quickstart`, run in this process.

#[allow(dead_code, reason = "`main` is for the program itself")]
#[path = "../examples/quickstart/main.rs"]
mod quickstart;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

fn run(arguments: &[&str]) -> Result<String, String> {
    let mut report = Vec::new();
    quickstart::run(lexopt::Parser::from_args(arguments), &mut report)
        .map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(report).expect("the report is text"))
}

#[test]
fn the_weights_are_right_and_drawn() {
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quickstart.png");
    // An error beyond the promised one would end the program with an error of its own.
    let report = run(&["--png", picture.to_str().expect("the path is text")]).unwrap();
    for line in [
        "device ",
        "input ",
        "plan ",
        "time ",
        "error ",
        "row sums ",
        "picture ",
    ] {
        assert!(report.contains(line), "no `{line}` in:\n{report}");
    }

    let mut reader = png::Decoder::new(BufReader::new(File::open(&picture).unwrap()))
        .read_info()
        .unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (41 * 12, 41 * 12));
    // Green grows with the weight from one end of the colours to the other.
    let green = |x: usize, y: usize| u32::from(pixels[(y * info.width as usize + x) * 3 + 1]);
    // Most queries of this head look at the first token, few at the one before the last.
    let column = |token: usize| {
        (0..41)
            .map(|query| green(token * 12 + 6, query * 12 + 6))
            .sum::<u32>()
    };
    assert!(column(0) > 2 * column(39));
}

#[test]
fn help_and_mistakes_are_answered() {
    assert!(run(&["--help"]).unwrap().contains("--png FILE"));
    assert!(
        run(&["--pngs"])
            .unwrap_err()
            .contains("invalid option '--pngs'")
    );
    assert!(
        run(&["--png"])
            .unwrap_err()
            .contains("missing argument for option '--png'")
    );
    let nowhere = Path::new("no such folder").join("x.png");
    assert!(
        run(&["--png", nowhere.to_str().unwrap()])
            .unwrap_err()
            .contains("cannot write the picture")
    );
}
