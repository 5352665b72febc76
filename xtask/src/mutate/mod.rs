//! `cargo xtask mutate`: whether the tests notice when the kernels, or the plan, are wrong.
//!
//! A copy of the tree is built once with all mutants in it ([`rules`], [`faults`]). Each test is run by itself, to
//! learn how long it takes and which mutants it comes by. Then each mutant is on while the quickest tests that come
//! by it run, ten seconds of them at most, until one fails. Seconds are a processor's, so that which tests run does
//! not depend on what else the machine does.

mod faults;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cuda_builder::{CudaBuilder, NvptxArch, ptx};

use crate::command::output;
use crate::{Error, workspace};
use faults::FAULTS;

/// The files that are made wrong.
const FILES: [&str; 21] = [
    "kernels-gpu/src/online.rs",
    "kernels-gpu/src/reduce.rs",
    "kernels-gpu/src/row.rs",
    "kernels-gpu/src/exp.rs",
    "kernels-gpu/src/tile.rs",
    "kernels-gpu/src/stage.rs",
    "kernels-gpu/src/exchange.rs",
    "kernels-gpu/src/chunked.rs",
    "kernels-gpu/src/spread.rs",
    "kernels-gpu/src/packed.rs",
    "kernels-gpu/src/stream.rs",
    "kernels-gpu/src/warp.rs",
    "kernels-gpu/src/attention.rs",
    "kernels-gpu/src/scores.rs",
    "kernels-gpu/src/scored.rs",
    "kernels-gpu/src/element.rs",
    "kernels-gpu/src/ln.rs",
    "kernels-gpu/src/tanh.rs",
    "kernels-gpu/src/options.rs",
    "host/src/plan.rs",
    "host/src/walk.rs",
];

/// The suites that look at what the kernels and the plan do, without taking long.
const SUITES: [&str; 7] = [
    "attention",
    "entries",
    "exp",
    "functions",
    "online",
    "quick",
    "tiles",
];

/// A mutant's tests take no longer than this together: a test that does not fit is left out.
const MOST_SECONDS: f64 = 10.0;
/// By the clock, a test that is measured may take so many times as long.
const MOST_BY_CLOCK: f64 = 3.0;

/// What became of the mutants: a line each, `outcome: mutant`.
const RESULTS: &str = "tests/mutants/results.txt";
/// Mutants that no test can tell from the original, and why.
const EXPLAINED: &str = "tests/mutants/explained.txt";

/// One of so many parts of the mutants.
#[derive(Clone, Copy)]
pub struct Shard {
    pub index: usize,
    pub count: usize,
}

impl Shard {
    /// All of them.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// `2/4`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let numbers = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err(format!("`{text}` is not a shard; `2/4` is the second of four").into()),
        }
    }
}

/// Runs the mutants of a shard with `only` in their names that are not known to be killed, and not explained.
pub fn run(Shard { index, count }: Shard, only: &str) -> Result<(), Error> {
    let work = workspace().join("target/mutants");
    let mutants = write_tree(&work.join("tree"))?;
    let explained = explained();
    // Of sources that have changed since.
    if let Some(name) = explained.iter().find(|name| !mutants.contains(name)) {
        return Err(format!("{EXPLAINED} has `{name}`, and there is no such mutant").into());
    }
    let tests = tests(&work)?;
    let mut results = read_results()?;
    println!("{} mutants, {} tests", mutants.len(), tests.len());
    for (number, mutant) in mutants.iter().enumerate() {
        let is_settled = explained.contains(mutant)
            || results
                .get(mutant)
                .is_some_and(|outcome| is_killed(outcome));
        if number % count != index - 1 || is_settled || !mutant.contains(only) {
            continue;
        }
        let outcome = try_mutant(&tests, number)?;
        println!("{outcome}: {mutant}");
        append_result(&format!("{outcome}: {mutant}\n"))?;
        results.insert(mutant.clone(), outcome);
    }
    report(&mutants, &results, &explained)
}

/// Copies what git knows of, with the mutants in it. Their names, in the order of their numbers.
fn write_tree(tree: &Path) -> Result<Vec<String>, Error> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = output(git.current_dir(workspace()))?;
    let mut mutants = Vec::new();
    let mut switched = BTreeMap::new();
    for path in FILES {
        let text = fs::read_to_string(workspace().join(path))
            .map_err(|error| format!("{path}: {error}"))?;
        let file = rules::switch(path, &text, mutants.len(), FAULTS)?;
        mutants.extend(file.mutants);
        // Where all is inlined into every entry, all mutants are compiled as often.
        switched.insert(path, file.text.replace("#[inline(always)]", ""));
    }
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let from = workspace().join(path);
        // Deleted, and git not told.
        if !from.is_file() {
            continue;
        }
        let content = match switched.get(path) {
            Some(text) => text.as_bytes().to_vec(),
            None if path == "crates/cuda_std/src/lib.rs" => {
                with_switch(&fs::read_to_string(&from)?).into_bytes()
            }
            None if path.starts_with("host/ptx/") => continue,
            None => fs::read(&from)?,
        };
        write_if_changed(&tree.join(path), &content)?;
    }
    write_if_changed(
        &tree.join("crates/cuda_std/src/mutant.rs"),
        include_bytes!("mutant.rs"),
    )?;
    // PTX is not looked at, so it need not be made anew.
    for arch in NvptxArch::ALL {
        let name = format!("host/ptx/softmax.{arch}.ptx");
        let text = fs::read_to_string(workspace().join(&name))?;
        let hash = CudaBuilder::new(tree.join("kernels-gpu"))
            .arch(arch)
            .source_hash()?;
        let recorded = ptx::recorded_hash(&text).ok_or_else(|| format!("{name} has no hash"))?;
        write_if_changed(
            &tree.join(&name),
            text.replacen(recorded, &hash, 1).as_bytes(),
        )?;
    }
    Ok(mutants)
}

/// `cuda_std` with the switch in it: all that is mutated depends on it.
fn with_switch(library: &str) -> String {
    let features =
        "#![allow(internal_features)]\n#![feature(core_intrinsics, const_eval_select)]\n";
    let module =
        "\n#[cfg(not(target_arch = \"nvptx64\"))]\n#[allow(missing_docs)]\npub mod mutant;\n";
    // Attributes of the crate come after its documentation.
    let docs = library
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .map(|line| line.len() + 1)
        .sum();
    let (docs, code) = library.split_at(docs);
    format!("{docs}{features}{code}{module}")
}

/// Unchanged files keep their time, so that cargo builds no more than it must.
fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("the path has a folder"))?;
    Ok(fs::write(path, content)?)
}

/// One test, by itself.
struct Test {
    program: PathBuf,
    name: String,
    /// Of a processor: a test is a thread.
    seconds: f64,
    /// Numbers of the mutants that it comes by.
    reached: BTreeSet<usize>,
}

impl Test {
    fn command(&self, tree: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--exact", &self.name, "--test-threads=1"])
            .env("CUDA_VISIBLE_DEVICES", "")
            .env("WARP_SOFTMAX_CASES", "16")
            .env("WARP_SOFTMAX_SEED", "1")
            .env("WARP_SOFTMAX_ACCURACY_ELEMENTS", "20000")
            .env("WARP_SOFTMAX_EMULATOR_THREADS", "1")
            .current_dir(tree.join("tests"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// Builds the tests and runs each once, unless that is known already.
fn tests(work: &Path) -> Result<Vec<Test>, Error> {
    let tree = work.join("tree");
    let mut programs = Vec::new();
    let libraries = ["--lib", "-p", "warp-softmax", "-p", "warp-softmax-kernels"].map(String::from);
    let suites = SUITES
        .iter()
        .flat_map(|suite| ["--test".into(), (*suite).into()]);
    let suites: Vec<String> = ["-p".into(), "warp-softmax-tests".into()]
        .into_iter()
        .chain(suites)
        .collect();
    for selected in [&libraries[..], &suites] {
        let mut cargo = Command::new("cargo");
        cargo
            .args(["test", "--no-run", "--locked"])
            .args(selected)
            .current_dir(&tree)
            .env("CARGO_TARGET_DIR", work.join("build"))
            .env("RUSTFLAGS", "-Awarnings")
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("RUSTC_BOOTSTRAP", "1");
        println!("building all mutants: {}", selected.join(" "));
        let built = output(&mut cargo)?;
        // `  Executable tests/exp.rs (/../exp-0123)`
        let printed = String::from_utf8_lossy(&built.stderr).into_owned();
        let lines = printed
            .lines()
            .filter(|line| line.trim_start().starts_with("Executable "));
        programs.extend(
            lines.filter_map(|line| {
                Some(PathBuf::from(line.rsplit_once('(')?.1.strip_suffix(')')?))
            }),
        );
    }
    if programs.is_empty() {
        return Err("cargo said of no test program that it was built".into());
    }
    let mut tests = Vec::new();
    for program in programs {
        let listed = output(Command::new(&program).args(["--list", "--format=terse"]))?;
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let Some(name) = line.strip_suffix(": test") else {
                continue;
            };
            tests.push(measured(work, &program, name)?);
        }
    }
    // The quickest first, and those that look at little: they look closely.
    let cost = |test: &Test| test.seconds * test.reached.len() as f64;
    tests.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    Ok(tests)
}

/// A test with what it takes and reaches, which is kept beside the build for the next time.
fn measured(work: &Path, program: &Path, name: &str) -> Result<Test, Error> {
    let built = fs::metadata(program)?.modified()?;
    let stem = program
        .file_stem()
        .expect("a program has a name")
        .to_string_lossy();
    let path = work.join(format!("reached/{stem}.{}", name.replace("::", ".")));
    let mut test = Test {
        program: program.to_owned(),
        name: name.to_owned(),
        seconds: 0.0,
        reached: BTreeSet::new(),
    };
    let is_known = fs::metadata(&path)
        .and_then(|known| known.modified())
        .is_ok_and(|known| known > built);
    if !is_known {
        let numbers = path.with_extension("numbers");
        let _ = fs::remove_file(&numbers);
        let before = children_ticks()?;
        let mut command = test.command(&work.join("tree"));
        command.env("MUTANTS_REACHED", &numbers);
        let limit = Duration::from_secs_f64(MOST_BY_CLOCK * MOST_SECONDS);
        let ended = ended_within(&mut command, limit)?;
        let seconds = match ended {
            // A test that is quicker than a tick takes some of one.
            Some(true) => (children_ticks()? - before).max(0.5) / TICKS_PER_SECOND,
            // It counts allocations, say, of which the switch makes one.
            Some(false) => {
                println!("left out, as it fails without a mutant too: {stem} {name}");
                f64::INFINITY
            }
            None => f64::INFINITY,
        };
        let reached = fs::read_to_string(&numbers).unwrap_or_default();
        fs::create_dir_all(path.parent().expect("the path has a folder"))?;
        fs::write(&path, format!("{seconds}\n{reached}"))?;
        println!(
            "{seconds:6.2} s, {:4} mutants: {stem} {name}",
            reached.lines().count()
        );
    }
    let text = fs::read_to_string(&path)?;
    let mut numbers = text.lines();
    test.seconds = numbers.next().unwrap_or_default().parse()?;
    test.reached = numbers.map(str::parse).collect::<Result<_, _>>()?;
    Ok(test)
}

/// What becomes of a mutant, in words.
fn try_mutant(tests: &[Test], number: usize) -> Result<String, Error> {
    let (mut seconds, mut ran) = (0.0, 0);
    let tree = workspace().join("target/mutants/tree");
    for test in tests.iter().filter(|test| test.reached.contains(&number)) {
        if seconds + test.seconds > MOST_SECONDS {
            continue;
        }
        seconds += test.seconds;
        ran += 1;
        let limit = Duration::from_secs_f64(3.0 + 10.0 * test.seconds);
        let ended = ended_within(test.command(&tree).env("MUTANT", number.to_string()), limit)?;
        let program = test
            .program
            .file_stem()
            .expect("a program has a name")
            .to_string_lossy();
        let suite = program
            .rsplit_once('-')
            .map_or(&*program, |(suite, _)| suite);
        match ended {
            Some(true) => {}
            Some(false) => return Ok(format!("killed by {suite} {}", test.name)),
            None => {
                return Ok(format!(
                    "stopped in {suite} {}, which does not end",
                    test.name
                ));
            }
        }
    }
    Ok(match ran {
        0 => "NOT REACHED".into(),
        _ => format!("SURVIVED {ran} tests"),
    })
}

/// In these Linux counts the time of processes.
const TICKS_PER_SECOND: f64 = 100.0;

/// How long processors have worked for the programs that this one has run, and that have ended.
fn children_ticks() -> Result<f64, Error> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // `pid (name) state ..`: the name may have spaces, and after it the 14th and 15th are the times of children.
    let mut fields = text
        .rsplit_once(')')
        .map_or("", |(_, fields)| fields)
        .split_whitespace()
        .skip(13);
    let mut next =
        || -> Result<f64, Error> { Ok(fields.next().ok_or("/proc/self/stat is short")?.parse()?) };
    Ok(next()? + next()?)
}

/// Whether the command succeeds; nothing where it has to be stopped.
fn ended_within(command: &mut Command, limit: Duration) -> Result<Option<bool>, Error> {
    let start = Instant::now();
    let mut child = command.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        sleep(Duration::from_millis(2));
    }
}

fn read_results() -> Result<BTreeMap<String, String>, Error> {
    let text = fs::read_to_string(workspace().join(RESULTS)).unwrap_or_default();
    let line = |line: &str| {
        let (outcome, mutant) = line
            .split_once(": ")
            .ok_or_else(|| format!("{RESULTS}: `{line}`?"))?;
        Ok((mutant.to_owned(), outcome.to_owned()))
    };
    text.lines().map(line).collect()
}

fn append_result(line: &str) -> Result<(), Error> {
    let path = workspace().join(RESULTS);
    fs::create_dir_all(path.parent().expect("the path has a folder"))?;
    let mut file = fs::File::options().append(true).create(true).open(path)?;
    Ok(file.write_all(line.as_bytes())?)
}

fn is_killed(outcome: &str) -> bool {
    outcome.starts_with("killed") || outcome.starts_with("stopped")
}

/// The mutants that the file of explanations lists: lines that are indented.
fn explained() -> BTreeSet<String> {
    let text = fs::read_to_string(workspace().join(EXPLAINED)).unwrap_or_default();
    let mutants = text.lines().filter_map(|line| line.strip_prefix("  "));
    mutants.map(String::from).collect()
}

/// Counts, and what is left to kill or explain; an error if anything is. Results are put in order once they are complete.
fn report(
    mutants: &[String],
    results: &BTreeMap<String, String>,
    explained: &BTreeSet<String>,
) -> Result<(), Error> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lines = String::new();
    for mutant in mutants {
        let Some(outcome) = results.get(mutant) else {
            continue;
        };
        *counts
            .entry(outcome.split(' ').next().unwrap_or_default())
            .or_default() += 1;
        lines += &format!("{outcome}: {mutant}\n");
    }
    println!(
        "{} of {} mutants have a result: {counts:?}",
        lines.lines().count(),
        mutants.len()
    );
    if lines.lines().count() == mutants.len() {
        fs::write(workspace().join(RESULTS), lines)?;
    }
    let unexplained: Vec<&String> = mutants
        .iter()
        .filter(|mutant| {
            results
                .get(*mutant)
                .is_some_and(|outcome| !is_killed(outcome))
        })
        .filter(|mutant| !explained.contains(*mutant))
        .collect();
    if let Some(first) = unexplained.first() {
        let count = unexplained.len();
        return Err(format!(
            "{count} mutants are neither killed nor in {EXPLAINED}, the first being `{first}`"
        )
        .into());
    }
    Ok(())
}
