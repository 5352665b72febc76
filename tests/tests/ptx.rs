//! The committed PTX against the sources: which entries it has, what parameters they take, and how many
//! collective operations. A compiler that copies a collective into two branches, or a launcher that
//! passes something else than an entry takes, shows here without a GPU.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cuda_std::emulator::Kernel;
use kernels_gpu::entries::REGISTRY;

const ARCHITECTURES: [&str; 2] = ["sm_80", "sm_90"];

fn ptx(architecture: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../host/ptx/softmax.{architecture}.ptx"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Name and text of every entry of a module.
fn entries(module: &str) -> BTreeMap<&str, &str> {
    const START: &str = ".visible .entry ";
    let mut starts: Vec<usize> = module.match_indices(START).map(|(at, _)| at).collect();
    starts.push(module.len());
    let text = |pair: &[usize]| &module[pair[0]..pair[1]];
    starts
        .windows(2)
        .map(|pair| {
            let text = text(pair);
            let name = text[START.len()..].split('(').next().expect("a name");
            (name.trim(), text)
        })
        .collect()
}

/// Collective instructions of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Collectives {
    block_barriers: usize,
    warp_barriers: usize,
    cluster_arrivals: usize,
    cluster_waits: usize,
    shuffles: usize,
    reductions: usize,
    /// Votes and whatever else names a set of lanes.
    others: usize,
}

fn count(entry: &str) -> Collectives {
    let mut counted = Collectives::default();
    for line in entry.lines() {
        let line = line.trim_start();
        // A predicate stands before the mnemonic.
        let line = if line.starts_with('@') {
            line.split_once(char::is_whitespace)
                .map_or("", |(_, rest)| rest)
        } else {
            line
        };
        let counter = match line.split('.').collect::<Vec<_>>()[..] {
            ["barrier", "cluster", what, ..] if what.starts_with("arrive") => {
                &mut counted.cluster_arrivals
            }
            ["barrier", "cluster", ..] => &mut counted.cluster_waits,
            ["bar", "warp", ..] => &mut counted.warp_barriers,
            ["bar" | "barrier", ..] => &mut counted.block_barriers,
            ["shfl", ..] => &mut counted.shuffles,
            ["redux", ..] => &mut counted.reductions,
            ["vote" | "match" | "activemask" | "elect", ..] => &mut counted.others,
            _ => continue,
        };
        *counter += 1;
    }
    counted
}

/// What an entry's source says, by way. A sum of pairs shuffles both halves; the output's type
/// decides whether a tile's sums are pairs. Loops over lanes of a number known to the compiler are
/// written out.
fn expected(kernel: &Kernel) -> Collectives {
    let halves = if kernel.name.ends_with("_f32") { 2 } else { 1 };
    let (way, lanes) = way_and_lanes(kernel);
    // Kernels that write logarithms sum pairs whatever their results are.
    let halves = if way.ends_with("_log") { 2 } else { halves };
    // Maximum and sum of a tile: a whole warp has an instruction for the maximum.
    let steps = lanes.ilog2() as usize;
    let tile = match lanes {
        32 => Collectives {
            reductions: 1,
            shuffles: steps * halves,
            ..Collectives::default()
        },
        _ => Collectives {
            shuffles: steps + steps * halves,
            ..Collectives::default()
        },
    };
    // A stage has a barrier after the loads, and two around the exponentials' writing.
    let staged_tile = Collectives {
        warp_barriers: 3,
        ..tile
    };
    // Partials of a number of warps known at run time: a loop with one step of a pair in it. The second of each
    // barrier stands before the row is gone over again.
    let block = Collectives {
        block_barriers: 2,
        reductions: 1,
        shuffles: 2,
        ..Collectives::default()
    };
    // More than 32 partials are merged in five steps of a pair: up to 64 by every warp, others by one for the block.
    let cluster = Collectives {
        cluster_arrivals: 2,
        cluster_waits: 2,
        block_barriers: 1,
        reductions: 3,
        shuffles: 22,
        ..Collectives::default()
    };
    // Four warps tell each other their maxima, and then what each lane adds.
    let spread = Collectives {
        block_barriers: 2,
        ..tile
    };
    // A warp that may have several chunks tells the compiler that its number is the same in all lanes.
    let several = Collectives {
        reductions: 1,
        ..Collectives::default()
    };
    // The first and the last key that are seen of a chunk.
    let seen = Collectives {
        reductions: 2,
        ..Collectives::default()
    };
    // The length of a row, and what is seen of its chunk, once for the scores and once for the results.
    let row = several + seen + seen;
    let is_16_bit = !kernel.name.contains("_f32_");
    match way {
        "warp" => tile,
        // With a lane a row there is a copy for rows that have next to nothing in its last vector.
        "packed" if lanes == 1 && is_16_bit && !kernel.name.contains("_1x1_") => {
            staged_tile + staged_tile
        }
        "packed" => staged_tile,
        "block" => tile + block,
        "spread" => spread + block,
        "parked" | "parked_fast" => tile + several + block,
        "staged" if is_16_bit => staged_tile + block,
        "staged" | "staged_fast" => staged_tile + several + block,
        "split" | "split_fast" => tile + cluster,
        // The first loads, and what begins with them, stand before the loop that others have them in.
        "split_spread" | "split_spread_fast" => {
            spread
                + cluster
                + Collectives {
                    cluster_arrivals: 1,
                    // The barrier of either round is armed after one.
                    warp_barriers: 2,
                    ..Collectives::default()
                }
        }
        "split_parked" | "split_parked_fast" => tile + several + cluster,
        "split_staged" if is_16_bit => staged_tile + cluster,
        "split_staged" | "split_staged_fast" => staged_tile + several + cluster,
        // Partials of 32 warps: five steps of a pair.
        "stream" => {
            tile + Collectives {
                block_barriers: 2,
                reductions: 1,
                shuffles: 10,
                ..Collectives::default()
            }
        }
        // Whether the other half's row is gone over again.
        "attention_warp" => {
            tile + Collectives {
                others: 1,
                ..Collectives::default()
            }
        }
        // Those that walk rows have slots in turns, and no second barrier.
        "attention_block" if !is_16_bit => tile + row + block,
        "attention_block" | "attention_block_any" | "attention_block_log" => {
            tile + row
                + Collectives {
                    block_barriers: 1,
                    ..block
                }
        }
        "attention_split" | "attention_split_any" | "attention_split_log" => tile + row + cluster,
        "attention_stream_any" | "attention_stream_log" => {
            tile + seen
                + Collectives {
                    block_barriers: 2,
                    reductions: 1,
                    shuffles: 10,
                    ..Collectives::default()
                }
        }
        way => panic!("{}: how many collectives has the way {way}?", kernel.name),
    }
}

impl core::ops::Add for Collectives {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            block_barriers: self.block_barriers + other.block_barriers,
            warp_barriers: self.warp_barriers + other.warp_barriers,
            cluster_arrivals: self.cluster_arrivals + other.cluster_arrivals,
            cluster_waits: self.cluster_waits + other.cluster_waits,
            shuffles: self.shuffles + other.shuffles,
            reductions: self.reductions + other.reductions,
            others: self.others + other.others,
        }
    }
}

/// The way, and the lanes of a row, as the name says: 32 where it says nothing.
fn way_and_lanes(kernel: &Kernel) -> (&str, usize) {
    let name = kernel.name.strip_prefix("softmax_").unwrap_or(kernel.name);
    let mut parts = name.rsplitn(3, '_');
    let (_output, _input) = (parts.next(), parts.next());
    let way = parts.next().expect("a way");
    match way
        .rsplit_once('_')
        .and_then(|(way, shape)| Some((way, shape.split_once('x')?.0)))
    {
        Some((way, lanes)) => (way, lanes.parse().expect("a number of lanes")),
        None if way == "attention_warp" => (way, 16),
        None => (way, 32),
    }
}

/// Whether an architecture has what an entry needs: clusters are there from sm_90 on.
fn belongs(kernel: &Kernel, architecture: &str) -> bool {
    architecture != "sm_80" || !kernel.name.contains("_split_")
}

#[test]
fn collectives_are_as_many_as_the_source_says() {
    for architecture in ARCHITECTURES {
        let module = ptx(architecture);
        for (name, text) in entries(&module) {
            let kernel = REGISTRY
                .iter()
                .find(|kernel| kernel.name == name)
                .expect("a kernel of that name");
            assert_eq!(count(text), expected(kernel), "{name}, {architecture}");
        }
    }
}

#[test]
fn every_kernel_has_its_entry_and_every_entry_its_kernel() {
    for architecture in ARCHITECTURES {
        let kernels = REGISTRY
            .iter()
            .filter(|kernel| belongs(kernel, architecture));
        let mut registry: Vec<&str> = kernels.map(|kernel| kernel.name).collect();
        registry.sort_unstable();
        let module = ptx(architecture);
        let names: Vec<&str> = entries(&module).into_keys().collect();
        assert_eq!(names, registry, "{architecture}");
    }
}

/// Size in bytes of a parameter, from its declaration.
fn parameter_bytes(declaration: &str) -> usize {
    if let Some((_, rest)) = declaration.split_once('[') {
        return rest
            .trim_end_matches([']', ',', ' '])
            .parse()
            .expect("a size");
    }
    let bits = declaration.split_whitespace().find_map(|word| {
        [".u", ".b", ".s", ".f"]
            .iter()
            .find_map(|kind| word.strip_prefix(kind)?.parse::<usize>().ok())
    });
    bits.unwrap_or_else(|| panic!("no size in `{declaration}`")) / 8
}

/// The launcher passes what the registry says, on either backend.
#[test]
fn entries_take_the_parameters_that_the_launcher_passes() {
    for architecture in ARCHITECTURES {
        let module = ptx(architecture);
        for (name, text) in entries(&module) {
            let kernel = REGISTRY
                .iter()
                .find(|kernel| kernel.name == name)
                .expect("a kernel of that name");
            let declarations = text
                .lines()
                .filter(|line| line.trim_start().starts_with(".param"));
            let bytes: Vec<usize> = declarations.map(parameter_bytes).collect();
            assert_eq!(bytes, kernel.param_bytes, "{name}, {architecture}");
        }
    }
}

#[test]
fn entries_take_blocks_as_large_as_the_registry_says() {
    for architecture in ARCHITECTURES {
        let module = ptx(architecture);
        for (name, text) in entries(&module) {
            let kernel = REGISTRY
                .iter()
                .find(|kernel| kernel.name == name)
                .expect("a kernel of that name");
            let bound = text
                .lines()
                .find_map(|line| line.trim().strip_prefix(".maxntid "))
                .expect("a launch bound");
            assert_eq!(
                bound.split(',').next(),
                Some(kernel.max_threads.to_string().as_str()),
                "{name}, {architecture}"
            );
        }
    }
}

/// Nothing in local memory, no calls, nothing that only a debugger's build has.
#[test]
fn kernels_live_in_registers() {
    for architecture in ARCHITECTURES {
        let module = ptx(architecture);
        for (name, text) in entries(&module) {
            for word in [
                ".local", "call", "trap", "ld.b", "st.b", "ld.v", "st.v", "ld.u", "st.u", "ld.f",
                "st.f",
            ] {
                let found = text
                    .lines()
                    .find(|line| line.split_whitespace().any(|token| token.starts_with(word)));
                assert_eq!(found, None, "{name}, {architecture}");
            }
        }
    }
}
