//! The program of `examples/softmax_file`, run in this process, with the unit tests of its modules.

#[allow(dead_code, reason = "`main` is for the program itself")]
#[path = "../examples/softmax_file/main.rs"]
mod softmax_file;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use half::{bf16, f16};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

/// An empty folder of a test's own.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("softmax_file")
        .join(test);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs `softmax_file INPUT OUTPUT OPTIONS` and gives its report or its error.
fn run(input: &Path, output: &Path, options: &[&str]) -> Result<String, String> {
    let mut arguments = vec![input.as_os_str(), output.as_os_str()];
    arguments.extend(options.iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    let mut report = Vec::new();
    softmax_file::run(lexopt::Parser::from_args(arguments), &mut report)
        .map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(report).expect("the report is text"))
}

/// A .npy file of a C array.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let dictionary =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((dictionary.len() as u16).to_le_bytes());
    file.extend(dictionary.bytes());
    file.extend(data);
    file
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// Values that differ from element to element and from row to row.
fn values(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919) % 1009) as f32 / 404.0 - 1.25)
        .collect()
}

/// The formula itself, of rows of `cols`.
fn softmax_in_f64(values: &[f32], cols: usize) -> Vec<f64> {
    let rows = values.chunks(cols).map(|row| {
        let e: Vec<f64> = row.iter().map(|&x| f64::from(x).exp()).collect();
        let sum: f64 = e.iter().sum();
        e.into_iter().map(move |e| e / sum)
    });
    rows.flatten().collect()
}

fn assert_close(values: impl Iterator<Item = f64>, exact: &[f64], relative: f64) {
    let values: Vec<f64> = values.collect();
    assert_eq!(values.len(), exact.len());
    for (i, (value, exact)) in values.iter().zip(exact).enumerate() {
        assert!(
            (value - exact).abs() <= relative * exact,
            "element {i}: {value}, not {exact}"
        );
    }
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn safetensors_keep_their_name_and_notes_and_change_type() {
    let folder = folder("safetensors");
    let input = folder.join("in.safetensors");
    let x = values(4 * 37);
    let narrow: Vec<u8> = x
        .iter()
        .flat_map(|&x| f16::from_f32(x).to_le_bytes())
        .collect();
    let narrow_x: Vec<f32> = x.iter().map(|&x| f16::from_f32(x).to_f32()).collect();
    let other = [1u8, 2, 3];
    let tensors = [
        (
            "logits \"é\"",
            TensorView::new(Dtype::F16, vec![2, 2, 37], &narrow).unwrap(),
        ),
        ("mask", TensorView::new(Dtype::U8, vec![3], &other).unwrap()),
    ];
    let notes = HashMap::from([("made by".to_owned(), "a test".to_owned())]);
    fs::write(
        &input,
        safetensors::serialize(tensors, Some(notes.clone())).unwrap(),
    )
    .unwrap();

    let error = run(&input, &folder.join("out.safetensors"), &[]).unwrap_err();
    assert!(
        error.contains("choose with --tensor NAME: ") && error.contains("mask"),
        "{error}"
    );
    let error = run(&input, &folder.join("out.safetensors"), &["--tensor", "x"]).unwrap_err();
    assert!(error.contains("holds no tensor `x`"), "{error}");
    let error = run(
        &input,
        &folder.join("out.safetensors"),
        &["--tensor", "mask"],
    )
    .unwrap_err();
    assert!(
        error.contains("tensor `mask` is U8; allowed are F32, F16 and BF16"),
        "{error}"
    );
    assert_eq!(names(&folder), ["in.safetensors"]);

    let exact = softmax_in_f64(&narrow_x, 37);
    for (option, dtype) in [("f16", Dtype::F16), ("f32", Dtype::F32)] {
        let output = folder.join(format!("{option}.safetensors"));
        run(
            &input,
            &output,
            &["--tensor", "logits \"é\"", "--out-dtype", option],
        )
        .unwrap();
        let file = fs::read(&output).unwrap();
        let (_, header) = SafeTensors::read_metadata(&file).unwrap();
        assert_eq!(header.metadata().as_ref(), Some(&notes));
        let file = SafeTensors::deserialize(&file).unwrap();
        assert_eq!(file.names(), ["logits \"é\""]);
        let tensor = file.tensor("logits \"é\"").unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &[2, 2, 37][..]));
        if dtype == Dtype::F32 {
            let words = tensor.data().as_chunks().0.iter();
            assert_close(
                words.map(|&word| f32::from_le_bytes(word).into()),
                &exact,
                3e-7,
            );
        } else {
            let words = tensor.data().as_chunks().0.iter();
            assert_close(
                words.map(|&word| f16::from_le_bytes(word).to_f64()),
                &exact,
                6e-4,
            );
        }
    }
}

#[test]
fn bf16_of_npy_is_asked_for() {
    let folder = folder("bf16");
    let (input, output) = (folder.join("in.npy"), folder.join("out.npy"));
    let x: Vec<bf16> = values(60).into_iter().map(bf16::from_f32).collect();
    let words: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(&input, npy("|V2", "(5, 12)", &words)).unwrap();
    assert!(
        run(&input, &output, &[])
            .unwrap_err()
            .contains("say --npy-bf16")
    );
    run(&input, &output, &["--npy-bf16"]).unwrap();
    let file = fs::read(&output).unwrap();
    assert!(file[..128].windows(5).any(|window| window == b"'<u2'"));
    let wide: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
    let words = file[128..].as_chunks().0.iter();
    assert_close(
        words.map(|&word| bf16::from_le_bytes(word).to_f64()),
        &softmax_in_f64(&wide, 12),
        4e-3,
    );
}

#[test]
fn blocks_give_the_bits_of_the_whole() {
    let folder = folder("blocks");
    let [input, whole, blocks] =
        ["in.npy", "whole.npy", "blocks.npy"].map(|name| folder.join(name));
    // 2.5 MiB: two blocks and a shorter one.
    let x = values(655 * 1_000);
    fs::write(&input, npy("<f4", "(5, 131, 1000)", &bytes(&x))).unwrap();
    run(&input, &whole, &["--scale", "0.5"]).unwrap();
    run(&input, &blocks, &["--scale", "0.5", "--block-mib", "1"]).unwrap();
    let [whole, blocks] = [&whole, &blocks].map(|path| fs::read(path).unwrap());
    assert!(whole == blocks);
    let words = whole[128..].as_chunks().0.iter();
    let halves: Vec<f32> = x.iter().map(|x| x * 0.5).collect();
    assert_close(
        words.map(|&word| f32::from_le_bytes(word).into()),
        &softmax_in_f64(&halves, 1_000),
        3e-7,
    );
}

#[test]
fn the_output_may_be_the_input_or_a_link() {
    let folder = folder("in_place");
    let file = folder.join("x.npy");
    fs::write(&file, npy("<f4", "(2, 2)", &bytes(&[0.0; 4]))).unwrap();
    let report = run(&file, &file, &[]).unwrap();
    assert!(
        report.contains("x.npy: f32 [2, 2], softmax along the last axis"),
        "{report}"
    );
    assert!(fs::read(&file).unwrap().ends_with(&bytes(&[0.5; 4])));
    #[cfg(unix)]
    {
        let link = folder.join("link.npy");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::write(&file, npy("<f4", "(1, 4)", &bytes(&[0.0; 4]))).unwrap();
        run(&link, &link, &[]).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read(&file).unwrap().ends_with(&bytes(&[0.25; 4])));
        assert_eq!(names(&folder), ["link.npy", "x.npy"]);
    }
}

#[test]
fn empty_tensors_stay_as_they_are() {
    let folder = folder("empty");
    for (i, shape) in ["(0,)", "(0, 5)", "(3, 0)"].into_iter().enumerate() {
        let (input, output) = (
            folder.join(format!("{i}.npy")),
            folder.join(format!("out{i}.npy")),
        );
        fs::write(&input, npy("<f4", shape, &[])).unwrap();
        run(&input, &output, &[]).unwrap();
        let output = fs::read(&output).unwrap();
        assert_eq!(output.len(), 128);
        let header = String::from_utf8_lossy(&output[10..]);
        assert!(
            header.contains(&format!("'shape': ({}", &shape[1..3])),
            "{header}"
        );
    }
}

/// What is wrong is said, the file that stood at the output's place stays, and nothing is left beside it.
#[test]
fn bad_files_change_nothing() {
    let folder = folder("bad");
    let good = bytes(&[1.0; 6]);
    let safetensors = |header: &str, data: &[u8]| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.bytes());
        file.extend(data);
        file
    };
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("empty.npy", vec![], "is empty: 0 bytes"),
        (
            "text.npy",
            b"0.1 0.2 0.3".to_vec(),
            "does not begin with \\x93NUMPY",
        ),
        ("cut.npy", npy("<f4", "(2, 3)", &good[..23]), "is truncated"),
        ("long.npy", npy("<f4", "(2, 2)", &good), "is too long"),
        (
            "f64.npy",
            npy("<f8", "(3,)", &good),
            "holds '<f8'; allowed are '<f4' (f32)",
        ),
        ("big.npy", npy(">f4", "(2, 3)", &good), "is big-endian"),
        (
            "scalar.npy",
            npy("<f4", "()", &good[..4]),
            "holds a single number",
        ),
        (
            "huge.npy",
            npy("<f4", "(1000000000000000,)", &good),
            "is truncated",
        ),
        ("empty.safetensors", vec![], "is empty: 0 bytes"),
        ("short.safetensors", vec![1; 7], "ends inside its header"),
        (
            "liar.safetensors",
            vec![0xff; 64],
            "claims a header of 18446744073709551615 bytes",
        ),
        (
            "json.safetensors",
            safetensors("{\"a\": ", &good),
            "has a header that cannot be understood",
        ),
        (
            "none.safetensors",
            safetensors("{}", &[]),
            "holds no tensor",
        ),
        (
            "cut.safetensors",
            safetensors(
                r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#,
                &good[..20],
            ),
            "is truncated: its header says 24 bytes of tensors, but 20 follow",
        ),
        (
            "huge.safetensors",
            safetensors(
                r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,24]}}"#,
                &good,
            ),
            "overflow",
        ),
        (
            "i64.safetensors",
            safetensors(
                r#"{"a":{"dtype":"I64","shape":[3],"data_offsets":[0,24]}}"#,
                &good,
            ),
            "tensor `a` is I64",
        ),
        (
            "x.bin",
            good.clone(),
            "is neither a .npy nor a .safetensors file by its name",
        ),
    ];
    for (name, file, expected) in cases {
        let input = folder.join(name);
        let output = folder
            .join("out")
            .with_extension(input.extension().unwrap());
        fs::write(&input, file).unwrap();
        fs::write(&output, "precious").unwrap();
        let error = run(&input, &output, &[]).unwrap_err();
        assert!(
            error.contains(expected) && error.contains(name),
            "{name}: {error}"
        );
        assert_eq!(fs::read(&output).unwrap(), b"precious", "{name}");
        fs::remove_file(&input).unwrap();
        fs::remove_file(&output).unwrap();
        assert_eq!(names(&folder), [""; 0], "{name}");
    }
}

#[test]
fn bad_arguments_are_named() {
    let folder = folder("arguments");
    let (input, output) = (folder.join("x.npy"), folder.join("y.npy"));
    fs::write(&input, npy("<f4", "(2,)", &bytes(&[0.0; 2]))).unwrap();
    for (options, expected) in [
        (&["--scale", "inf"][..], "--scale inf: not a finite number"),
        (&["--scale"], "missing argument for option '--scale'"),
        (
            &["--out-dtype", "f64"],
            "--out-dtype f64: it must be f32, f16 or bf16",
        ),
        (
            &["--device", "gpu"],
            "--device gpu: it must be auto, cuda, cuda:N or emulator",
        ),
        (
            &["--block-mib", "0"],
            "--block-mib 0: it must be from 1 to 65536",
        ),
        (&["--axis", "1"], "invalid option '--axis'"),
        (&["z.npy"], "unexpected argument \"z.npy\""),
        (&["--tensor", "a"], "--tensor is for .safetensors"),
        (&["--npy-bf16"], "--npy-bf16 is for 16-bit words"),
        (&["--device", "cuda:4096"], "GPU"),
    ] {
        let error = run(&input, &output, options).unwrap_err();
        assert!(error.contains(expected), "{options:?}: {error}");
    }
    for (output, expected) in [
        (folder.join("y.safetensors"), "differ in their format"),
        (folder.join("no such folder").join("y.npy"), "cannot write"),
        (folder.join("d.npy"), "is not a regular file"),
    ] {
        fs::create_dir_all(folder.join("d.npy")).unwrap();
        let error = run(&input, &output, &[]).unwrap_err();
        assert!(error.contains(expected), "{}: {error}", output.display());
    }
    let error = run(&folder.join("missing.npy"), &output, &[]).unwrap_err();
    assert!(error.contains("missing.npy: cannot be opened"), "{error}");
    assert_eq!(names(&folder), ["d.npy", "x.npy"]);
}

/// NumPy writes the inputs, and checks what comes back. `PYTHON` names the interpreter, `python3` if unset.
#[test]
fn numpy_agrees() {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/softmax_file.py");
    match Command::new(&python).args(["-c", "import numpy"]).output() {
        Ok(answer) if answer.status.success() => {}
        Ok(_) => return eprintln!("skipped: {} has no numpy", python.display()),
        Err(error) => return eprintln!("skipped: {} does not run: {error}", python.display()),
    }
    let folder = folder("numpy");
    let step = |name: &str| {
        let done = Command::new(&python)
            .arg(&script)
            .arg(name)
            .arg(&folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        said.into_owned()
    };
    // A line a case: input, output, options.
    let cases = step("make");
    assert!(cases.lines().count() > 0);
    for case in cases.lines() {
        let mut words = case.split(' ');
        let [input, output] = [(); 2].map(|()| folder.join(words.next().unwrap()));
        run(&input, &output, &words.collect::<Vec<_>>()).unwrap();
    }
    print!("{}", step("check"));
}
