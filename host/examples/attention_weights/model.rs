//! What a language model had in one of its attention layers: scores, padding mask, weights.

use anyhow::{Context, Result, bail, ensure};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

/// Layer 5, for some sentences.
pub struct Model {
    /// Sentences, heads, tokens: at least one each.
    pub extents: [usize; 3],
    pub scale: f32,
    /// [sentences, heads, queries, keys], unscaled.
    pub scores: Vec<f32>,
    /// [sentences, keys]: 1 for tokens, 0 for padding.
    pub keep: Vec<u8>,
    /// Softmax of the same as the model had it.
    pub weights: Vec<f32>,
}

impl Model {
    /// Reads a `.safetensors` with all of it.
    ///
    /// # Errors
    ///
    /// Where something is missing, or of another type or shape.
    pub fn read(file: &[u8]) -> Result<Self> {
        let (_, header) = SafeTensors::read_metadata(file)?;
        let scale = header
            .metadata()
            .as_ref()
            .and_then(|metadata| metadata.get("scale"))
            .context("the scores' file states no scale")?
            .parse()?;
        let file = SafeTensors::deserialize(file)?;
        let shape = file.tensor("scores.5")?.shape().to_vec();
        let extents = match shape[..] {
            [sentences, heads, queries, keys] if queries == keys && !shape.contains(&0) => {
                [sentences, heads, queries]
            }
            _ => bail!("scores of shape {shape:?}; it must be [sentences, heads, tokens, tokens]"),
        };
        let [sentences, _, tokens] = extents;
        Ok(Self {
            extents,
            scale,
            scores: f32s(&file, "scores.5", &shape)?,
            keep: data(&file, "padding_mask", Dtype::U8, &[sentences, tokens])?.to_vec(),
            weights: f32s(&file, "probs.5", &shape)?,
        })
    }
}

fn f32s(file: &SafeTensors<'_>, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let (values, _) = data(file, name, Dtype::F32, shape)?.as_chunks();
    let values = values.iter().map(|&bytes| f32::from_le_bytes(bytes));
    Ok(values.collect())
}

/// The bytes of a tensor of that type and shape.
fn data<'a>(file: &SafeTensors<'a>, name: &str, dtype: Dtype, shape: &[usize]) -> Result<&'a [u8]> {
    let tensor = file.tensor(name)?;
    ensure!(
        tensor.dtype() == dtype && tensor.shape() == shape,
        "`{name}` is {} {:?}; it must be {dtype} {shape:?}",
        tensor.dtype(),
        tensor.shape()
    );
    Ok(tensor.data())
}
