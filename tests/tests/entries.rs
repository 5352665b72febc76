//! Every entry point by itself on the emulator, on every row length that it can hold and with every
//! size of block, whether or not the plan ever asks for that.

use std::collections::BTreeSet;

use cuda_std::emulator::{Buffer, Kernel, Launch, launch};
use kernels_gpu::entries::REGISTRY;
use kernels_gpu::exchange::{Block, Cluster, Exchange};
use kernels_gpu::exp::{Accuracy, Fast, Reference};
use kernels_gpu::online::{Outcome, Pair, Partial};
use kernels_gpu::options::Options;
use kernels_gpu::reduce::WARP;
use kernels_gpu::row::RowLayout;
use kernels_gpu::spread::{QUARTERS, Quarters};
use kernels_gpu::{chunked, packed, stream};
use warp_softmax::{DType, Way};
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::{Format, PAIRS};
use warp_softmax_tests::oracle::{self, Op};
use warp_softmax_tests::parameter::pointer;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::reference;
use warp_softmax_tests::schedule::everywhere;

/// The kernels of the plain softmax: those of attention take other parameters.
fn kernels() -> impl Iterator<Item = &'static Kernel> {
    REGISTRY
        .iter()
        .filter(|kernel| kernel.name.starts_with("softmax_"))
}

/// An entry point, as its name describes it.
struct Entry {
    kernel: &'static Kernel,
    way: Way,
    /// Whether it uses the GPU's own exponential: those have bits of their own.
    fast: bool,
    /// Lanes of a row, and vectors a lane, where the name says so.
    shape: Option<(u32, u32)>,
    input: DType,
    output: DType,
}

/// How a row is given to blocks.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    warps: u32,
    rows_per_block: u32,
    /// Blocks that share a row.
    cluster: u32,
    shared_bytes: u32,
}

impl Entry {
    fn parse(kernel: &'static Kernel) -> Self {
        let dtype = |name: &str| {
            *DType::ALL
                .iter()
                .find(|dtype| dtype.name() == name)
                .expect("a type")
        };
        let words: Vec<&str> = kernel.name.split('_').collect();
        let [softmax, way @ .., input, output] = &words[..] else {
            panic!("what is {}?", kernel.name)
        };
        assert_eq!(*softmax, "softmax");
        let (way, shape) = match way {
            [way @ .., shape] if shape.contains('x') => (way, shape.split_once('x')),
            _ => (way, None),
        };
        let (way, fast) = match way {
            [way @ .., "fast"] => (way, true),
            _ => (way, false),
        };
        let way = Way::ALL
            .into_iter()
            .find(|known| known.to_string() == way.join("_"))
            .expect("a way");
        let shape = shape
            .map(|(lanes, steps)| (lanes.parse().expect("lanes"), steps.parse().expect("steps")));
        Self {
            kernel,
            way,
            fast,
            shape,
            input: dtype(input),
            output: dtype(output),
        }
    }

    /// Whether rows of a length are whole vectors, and begin where those do if the first does.
    fn is_aligned(&self, cols: usize) -> bool {
        cols.is_multiple_of(self.vector_elems() as usize)
    }

    /// Whether it is for aligned rows alone.
    fn is_for_aligned(&self) -> bool {
        matches!(
            self.way,
            Way::Block
                | Way::Spread
                | Way::Parked
                | Way::Split
                | Way::SplitSpread
                | Way::SplitParked
        )
    }

    /// Elements in 16 bytes of input.
    fn vector_elems(&self) -> u32 {
        16 / self.input.size_bytes() as u32
    }

    /// Whether a staged way can give a warp several chunks: not where it holds them in registers.
    fn stages_several(&self) -> bool {
        self.input == DType::F32 || self.fast
    }

    fn stages_bytes(&self, warps: u32, cluster: u32, cols: u32) -> u32 {
        let [size_in, size_out] = [self.input, self.output].map(|dtype| dtype.size_bytes() as u32);
        chunked::stages_bytes(warps, cluster, cols, size_in, size_out)
    }

    /// Rows of a length in blocks of every size that can hold them.
    fn geometries(&self, cols: usize) -> Vec<Geometry> {
        let (cols, chunks, most) = (
            cols as u32,
            chunked::chunks(cols as u32),
            self.kernel.max_threads / WARP,
        );
        let alone = |warps, shared_bytes| Geometry {
            warps,
            rows_per_block: 1,
            cluster: 1,
            shared_bytes,
        };
        let candidates: Vec<Geometry> = match (self.way, self.shape) {
            _ if self.is_for_aligned() && !self.is_aligned(cols as usize) => vec![],
            (Way::Warp | Way::Packed, Some((lanes, steps))) => {
                let widest = self.input.size_bytes().max(self.output.size_bytes()) as u32;
                let stage = if self.way == Way::Packed {
                    packed::stage_bytes(lanes, steps, self.vector_elems(), cols, widest)
                } else {
                    0
                };
                let shortest = if self.way == Way::Packed {
                    packed::shortest(lanes, steps, self.vector_elems())
                } else {
                    1
                };
                let fits = (shortest..=lanes * steps * self.vector_elems()).contains(&cols);
                let sizes = BTreeSet::from([1, most]).into_iter().filter(|_| fits);
                sizes
                    .map(|warps| Geometry {
                        rows_per_block: warps * WARP / lanes,
                        ..alone(warps, warps * stage)
                    })
                    .collect()
            }
            // A chunk a warp; the last warps may have none.
            (Way::Block, _) => BTreeSet::from([chunks, (chunks + 3).min(most)])
                .into_iter()
                .filter(|&warps| warps >= chunks)
                .map(|warps| alone(warps, <Block>::bytes(warps)))
                .collect(),
            (Way::Spread, _) => vec![alone(
                chunks * QUARTERS,
                chunked::shared_bytes(
                    Block::<QUARTERS>::bytes(chunks),
                    Quarters::bytes(chunks * QUARTERS),
                ),
            )],
            (Way::SplitSpread, _) => CLUSTERS
                .map(|cluster| {
                    let warps = chunks.div_ceil(cluster) * QUARTERS;
                    let shared_bytes = chunked::shared_bytes(
                        Cluster::<QUARTERS>::bytes(chunks),
                        Quarters::bytes(warps),
                    );
                    Geometry {
                        cluster,
                        ..alone(warps, shared_bytes)
                    }
                })
                .to_vec(),
            (Way::Split, _) => CLUSTERS
                .map(|cluster| Geometry {
                    cluster,
                    ..alone(chunks.div_ceil(cluster), <Cluster>::bytes(chunks))
                })
                .to_vec(),
            // One chunk a warp or several, unless they are held in registers.
            (Way::Staged, _) => [1, 2, 3]
                .into_iter()
                .filter(|&each| each == 1 || self.stages_several())
                .map(|each| chunks.div_ceil(each))
                .map(|warps| {
                    alone(
                        warps,
                        chunked::shared_bytes(
                            <Block>::bytes(chunks),
                            self.stages_bytes(warps, 1, cols),
                        ),
                    )
                })
                .collect(),
            (Way::SplitStaged, _) => CLUSTERS
                .into_iter()
                .flat_map(|cluster| {
                    [1, 2, 4]
                        .into_iter()
                        .filter(|&each| each == 1 || self.stages_several())
                        .map(move |each| (cluster, chunks.div_ceil(cluster * each)))
                })
                .map(|(cluster, warps)| {
                    let shared_bytes = chunked::shared_bytes(
                        <Cluster>::bytes(chunks),
                        self.stages_bytes(warps, cluster, cols),
                    );
                    Geometry {
                        cluster,
                        ..alone(warps, shared_bytes)
                    }
                })
                .collect(),
            // One chunk a warp or several.
            (Way::Parked, _) => [1, 2, 4]
                .map(|each| chunks.div_ceil(each))
                .map(|warps| {
                    let size = self.input.size_bytes() as u32;
                    alone(
                        warps,
                        chunked::shared_bytes(
                            <Block>::bytes(chunks),
                            chunked::parked_bytes(warps, 1, cols, size),
                        ),
                    )
                })
                .to_vec(),
            (Way::SplitParked, _) => CLUSTERS
                .into_iter()
                .flat_map(|cluster| {
                    [1, 2, 4].map(|each| (cluster, chunks.div_ceil(cluster * each)))
                })
                .map(|(cluster, warps)| {
                    let size = self.input.size_bytes() as u32;
                    let shared_bytes = chunked::shared_bytes(
                        <Cluster>::bytes(chunks),
                        chunked::parked_bytes(warps, cluster, cols, size),
                    );
                    Geometry {
                        cluster,
                        ..alone(warps, shared_bytes)
                    }
                })
                .collect(),
            (Way::Stream, _) => vec![alone(stream::BLOCK_THREADS / WARP, stream::SHARED_BYTES)],
            (way, shape) => panic!("the test does not know how {way} of {shape:?} is launched"),
        };
        let fits = |geometry: &Geometry| {
            geometry.warps <= most && geometry.shared_bytes <= cuda_std::emulator::MAX_SHARED_BYTES
        };
        candidates.into_iter().filter(fits).collect()
    }
}

/// Blocks of a cluster.
const CLUSTERS: [u32; 3] = [2, 4, 16];

/// Elements so many after a multiple of 16 bytes, in memory of their own.
struct Memory {
    words: Vec<u128>,
    dtype: DType,
    skew: usize,
    count: usize,
}

impl Memory {
    fn new(dtype: DType, skew: usize, count: usize) -> Self {
        let bytes = (skew + count) * dtype.size_bytes();
        Self {
            words: vec![0x5a; bytes.div_ceil(16)],
            dtype,
            skew,
            count,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let size = self.dtype.size_bytes();
        let all = self.words.len() * 16;
        // SAFETY: a word is 16 initialised bytes, and any bytes are a word.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast::<u8>(), all) };
        &mut bytes[self.skew * size..][..self.count * size]
    }

    fn set(&mut self, bits: &[u32]) {
        let size = self.dtype.size_bytes();
        for (element, bits) in self.bytes().chunks_exact_mut(size).zip(bits) {
            element.copy_from_slice(&bits.to_le_bytes()[..size]);
        }
    }

    fn get(&mut self) -> Vec<u32> {
        let size = self.dtype.size_bytes();
        let element = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |bits, &byte| bits << 8 | u32::from(byte))
        };
        self.bytes().chunks_exact(size).map(element).collect()
    }

    fn buffer(&mut self, writable: bool) -> Buffer {
        let bytes = self.bytes();
        Buffer {
            address: bytes.as_mut_ptr().expose_provenance() as u64,
            bytes: bytes.len() as u64,
            writable,
        }
    }
}

/// Runs an entry over packed rows, input and output so many elements past 16 bytes.
fn run(
    entry: &Entry,
    Geometry {
        warps,
        rows_per_block,
        cluster,
        shared_bytes,
    }: Geometry,
    x: &[u32],
    cols: usize,
    skew: (usize, usize),
) -> Vec<u32> {
    let rows = (x.len() / cols) as u32;
    let mut input = Memory::new(entry.input, skew.0, x.len());
    let mut output = Memory::new(entry.output, skew.1, x.len());
    input.set(x);
    let buffers = [input.buffer(false), output.buffer(true)];
    let (cols, options) = (cols as u32, Options::default());
    let layout = RowLayout::new(&[(rows, cols.into(), cols.into())]);
    let grid = rows.div_ceil(rows_per_block) * cluster;
    let shape = Launch {
        grid,
        block: warps * WARP,
        cluster,
        shared_bytes,
        buffers: &buffers,
    };
    // A pointer parameter is an address.
    let (x_address, y_address) = (buffers[0].address, buffers[1].address);
    let params = [
        pointer(&x_address),
        pointer(&y_address),
        pointer(&rows),
        pointer(&cols),
        pointer(&options),
        pointer(&layout),
    ];
    // SAFETY: parameters: of the types that all entries have; buffers: both live, the writable one
    // this function's own; contract: the layout leads to packed rows, the block can hold a row.
    let run = || unsafe { launch(entry.kernel, &shape, &params) };
    let outcome = everywhere(cols.into(), || run().map_err(|fault| fault.to_string()));
    outcome.unwrap_or_else(|what| panic!("{what}"));
    output.get()
}

/// All entries of a pair of types agree, to the bit and with the oracle, in every size of block; so do,
/// among themselves, those that use the GPU's own exponential. The number of launches.
fn entries_agree(types: (DType, DType), cols: usize, content: Content, rows: usize) -> usize {
    let mut random = Random::new(cols as u64);
    let x: Vec<u32> = (0..rows)
        .flat_map(|_| content.row(cols, &mut random))
        .map(|x| types.0.finite_bits(x))
        .collect();
    let mut ran = 0;
    for fast in [false, true] {
        let mut first: Option<(String, Vec<u32>)> = None;
        let entries = kernels().map(Entry::parse);
        for entry in
            entries.filter(|entry| (entry.input, entry.output) == types && entry.fast == fast)
        {
            // Aligned, and input and output in turn not.
            let skews = [(0, 0), (3, 0), (0, 1)];
            for (geometry, skew) in entry
                .geometries(cols)
                .into_iter()
                .zip(skews.into_iter().cycle())
            {
                let skew = if entry.is_for_aligned() { (0, 0) } else { skew };
                let got = run(&entry, geometry, &x, cols, skew);
                let label = format!("{} as {geometry:?}, skewed by {skew:?}", entry.kernel.name);
                ran += 1;
                let Some((there, expected)) = &first else {
                    for (got, x) in got.chunks(cols).zip(x.chunks(cols)) {
                        let x: Vec<f32> = x.iter().map(|&bits| types.0.value(bits)).collect();
                        let checked =
                            oracle::compare(types.1, got, &oracle::softmax(&x, &Op::default()));
                        checked.unwrap_or_else(|what| {
                            panic!("{label}: {cols} of {content:?}: {what}")
                        });
                    }
                    first = Some((label, got));
                    continue;
                };
                if let Some(i) = got.iter().zip(expected).position(|(a, b)| a != b) {
                    let (here, there_bits) = (got[i], expected[i]);
                    panic!(
                        "{cols} of {content:?}, element {i}: {there_bits:#x} from {there}, {here:#x} from {label}"
                    );
                }
            }
        }
    }
    ran
}

const NORMAL: Content = Content::Normal { sigma: 4.0 };

/// Where lanes have no element at all: the plan has fewer lanes for such rows.
#[test]
fn packed_entries_hold_rows_shorter_than_their_lanes() {
    let mut ran = 0;
    for types in [(DType::F32, DType::F32), (DType::BF16, DType::BF16)] {
        let of_types = |entry: &Entry| (entry.input, entry.output) == types;
        for entry in kernels().map(Entry::parse).filter(of_types) {
            let several = entry.shape.is_some_and(|(lanes, _)| lanes > 1);
            if entry.way != Way::Packed || !several {
                continue;
            }
            for cols in [1, 3, 9] {
                let mut random = Random::new(cols as u64);
                let x: Vec<f32> = (0..3 * cols)
                    .map(|_| types.0.value(types.0.bits(random.normal() as f32)))
                    .collect();
                let bits: Vec<u32> = x.iter().map(|&x| types.0.bits(x)).collect();
                for geometry in entry.geometries(cols) {
                    let got = run(&entry, geometry, &bits, cols, (1, 3));
                    for (got, x) in got.chunks(cols).zip(x.chunks(cols)) {
                        let expected = reference::softmax(x, types, &Options::default());
                        assert_eq!(got, expected, "{}, {cols} columns", entry.kernel.name);
                    }
                    ran += 1;
                }
            }
        }
    }
    assert!(ran >= 30, "{ran} launches");
}

/// The result of `z`, by the GPU's own exponential relative to a part's maximum.
fn fast_result(z: f32, part_max: f32, whole: Partial) -> u32 {
    match Outcome::of(whole, 2, &Options::default()).for_part(part_max, whole.max) {
        Outcome::Fill(value) => DType::F16.bits(value),
        Outcome::Normalise(part) => {
            let e = Fast::exp(z, Reference::of_max(part_max));
            DType::F16.bits(part.apply::<Fast>(part.rescale(e)))
        }
    }
}

/// Of such exponentials the last bits depend on the maximum that they are relative to: the row's, in every entry. One result of
/// ten thousand shows it, so two that do are looked for.
#[test]
fn fast_exponentials_are_relative_to_the_rows_maximum() {
    let cols = 2 * 1024;
    let of = |dtype: DType, value| dtype.value(dtype.bits(value));
    let entries: Vec<Entry> = kernels()
        .map(Entry::parse)
        .filter(|entry| (entry.input, entry.output) == (DType::F16, DType::F16) && entry.fast)
        .collect();
    let (mut found, mut ran) = (0, 0);
    for (i, k) in (0..400).flat_map(|i| (0..250).map(move |k| (i, k))) {
        let [y, z] = [-0.01 * k as f32, -9.7 - 0.01 * i as f32].map(|x| of(DType::F16, x));
        let e = |x| Fast::exp(x, Reference::of_max(0.0));
        let sum = Pair {
            hi: (e(0.0) + e(y)) + e(z),
            lo: 0.0,
        };
        let whole = Partial { max: 0.0, sum };
        let expected = fast_result(z, 0.0, whole);
        if expected == fast_result(z, z, whole) {
            continue;
        }
        found += 1;
        let mut row = vec![f32::NEG_INFINITY; cols];
        (row[0], row[1], row[1024]) = (0.0, y, z);
        let x: Vec<u32> = row.iter().map(|&x| DType::F16.bits(x)).collect();
        for entry in &entries {
            if let Some(&geometry) = entry.geometries(cols).first() {
                let got = run(entry, geometry, &x, cols, (0, 0));
                assert_eq!(got[1024], expected, "{} of {y} and {z}", entry.kernel.name);
                ran += 1;
            }
        }
        if found == 2 {
            break;
        }
    }
    assert!(found == 2 && ran >= 2 * 5, "{found} rows, {ran} launches");
}

fn short_rows(types: (DType, DType)) {
    let lengths = (1..=40).chain([
        63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 777, 1000, 1023, 1024,
    ]);
    let ran: usize = lengths
        .map(|cols| entries_agree(types, cols, NORMAL, 3))
        .sum();
    println!("{types:?}: {ran} launches");
    assert!(ran > 1000);
}

fn long_rows(types: (DType, DType)) {
    for cols in [1025, 2048, 3000, 5 * 1024 + 1, 17_000, 32_767, 32_768] {
        // Four ways are for aligned rows alone.
        let fewest = if cols % 8 == 0 { 8 } else { 4 };
        assert!(entries_agree(types, cols, NORMAL, 1) >= fewest);
    }
}

/// A test of its own for each of [`PAIRS`], so that no test takes long.
macro_rules! for_every_pair {
    ($($name:ident: $input:ident => $output:ident;)*) => {
        $(mod $name {
            use super::*;

            const TYPES: (DType, DType) = (DType::$input, DType::$output);

            #[test]
            fn all_entries_give_the_same_bits_on_short_rows() {
                short_rows(TYPES);
            }

            #[test]
            fn all_entries_give_the_same_bits_on_long_rows() {
                long_rows(TYPES);
            }
        })*

        #[test]
        fn every_pair_has_its_tests() {
            let mut tested = vec![$((DType::$input, DType::$output)),*];
            for types in PAIRS {
                let count = tested.len();
                tested.retain(|&those| those != types);
                assert_eq!(tested.len() + 1, count, "{types:?}");
            }
        }
    };
}

for_every_pair! {
    f32_to_f32: F32 => F32;
    f16_to_f16: F16 => F16;
    bf16_to_bf16: BF16 => BF16;
    f16_to_f32: F16 => F32;
    bf16_to_f32: BF16 => F32;
    f32_to_f16: F32 => F16;
    f32_to_bf16: F32 => BF16;
}

#[test]
fn all_entries_give_the_same_bits_on_every_kind_of_content() {
    for types in PAIRS {
        for &content in Content::ALL {
            for cols in [3, 30, 200, 1000, 2500] {
                entries_agree(types, cols, content, 1);
            }
        }
    }
}

#[test]
fn the_registry_has_every_pair_of_types_by_every_way() {
    for types in PAIRS {
        for way in Way::ALL {
            let entries = kernels().map(Entry::parse).filter(|entry| !entry.fast);
            let count = entries
                .filter(|entry| (entry.input, entry.output) == types && entry.way == way)
                .count();
            // Parked rows keep their type.
            let expected = !matches!(way, Way::Parked | Way::SplitParked) || types.0 == types.1;
            assert_eq!(count > 0, expected, "{way}, {types:?}");
        }
    }
}
