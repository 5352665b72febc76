//! Few numbers that stand for many.

use serde::{Deserialize, Serialize};

/// The middle of several measurements and how far apart they are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// `(max - min) / median`.
    pub spread: f64,
    /// How many there were.
    pub samples: u64,
}

impl Spread {
    /// Of at least one sample.
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Self {
            median,
            min,
            max,
            spread: (max - min) / median,
            samples: sorted.len() as u64,
        }
    }
}

/// `y = intercept + slope * x`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// At x = 0.
    pub intercept: f64,
    /// For each step of x.
    pub slope: f64,
    /// Largest distance of a point from the line, as a fraction of the point's y.
    pub largest_residual: f64,
}

impl Line {
    /// The line that makes the sum of the squared *relative* residuals least, so that the largest
    /// point does not decide alone. None for fewer than two different x.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        // Weights 1 / y^2 turn residuals into relative ones.
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(x, y) in points {
            let weight = 1.0 / (y * y);
            w += weight;
            wx += weight * x;
            wy += weight * y;
            wxx += weight * x * x;
            wxy += weight * x * y;
        }
        let determinant = w * wxx - wx * wx;
        // Rounding leaves a trace of a determinant where all x are equal.
        if determinant <= 1e-12 * w * wxx {
            return None;
        }
        let mut line = Self {
            intercept: (wxx * wy - wx * wxy) / determinant,
            slope: (w * wxy - wx * wy) / determinant,
            largest_residual: 0.0,
        };
        for &(x, y) in points {
            line.largest_residual = line.largest_residual.max(line.residual(x, y).abs());
        }
        Some(line)
    }

    /// How far a point is above the line, as a fraction of its y.
    pub fn residual(&self, x: f64, y: f64) -> f64 {
        (y - (self.intercept + self.slope * x)) / y
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let odd = Spread::of(&[5.0, 1.0, 2.0]);
        assert_eq!(
            (odd.median, odd.min, odd.max, odd.spread, odd.samples),
            (2.0, 1.0, 5.0, 2.0, 3)
        );
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn a_straight_line_is_found_again() {
        let points: Vec<(f64, f64)> = (20..=32)
            .map(|n| 2f64.powi(n))
            .map(|x| (x, 3.0 + 0.002 * x))
            .collect();
        let line = Line::fit(&points).unwrap();
        assert!((line.intercept - 3.0).abs() < 1e-6, "{line:?}");
        assert!((line.slope - 0.002).abs() < 1e-12, "{line:?}");
        assert!(line.largest_residual < 1e-9, "{line:?}");
        // A point 10 % above it.
        assert!((line.residual(1000.0, 5.0 / 0.9) - 0.1).abs() < 1e-6);
    }

    #[test]
    fn no_line_goes_through_one_place() {
        assert_eq!(Line::fit(&[]), None);
        assert_eq!(Line::fit(&[(2.0, 1.0)]), None);
        assert_eq!(Line::fit(&[(2.0, 1.0), (2.0, 3.0)]), None);
    }
}
