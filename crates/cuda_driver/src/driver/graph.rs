//! Graphs: captured work, launched again and again.

use std::ptr;

use super::Driver;
use crate::error::{check, output};
use crate::{CUgraph, CUgraphExec, CUstream, CuError};

impl Driver {
    /// Makes a graph ready to launch. It does not need `graph` afterwards.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn graph_instantiate(&self, graph: CUgraph) -> Result<CUgraphExec, CuError> {
        // SAFETY: a place for the handle, no flags, and the caller's promise.
        output(ptr::null_mut(), |exec| unsafe {
            (self.functions.graph_instantiate)(exec, graph, 0)
        })
    }

    /// Runs a graph on a stream.
    ///
    /// # Safety
    ///
    /// **live**, and what each recorded call asked of memory and kernels, for this run.
    pub unsafe fn graph_launch(&self, exec: CUgraphExec, stream: CUstream) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.graph_launch)(exec, stream) })
    }

    /// Destroys a graph made ready to launch; a run that has begun still ends.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn graph_exec_destroy(&self, exec: CUgraphExec) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.graph_exec_destroy)(exec) })
    }

    /// Destroys a captured graph.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn graph_destroy(&self, graph: CUgraph) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.graph_destroy)(graph) })
    }
}
