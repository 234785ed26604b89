// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CAUSEWAY_HPP
#define CAUSEWAY_CAUSEWAY_HPP

// Everything. Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only
// where that library is at hand; no other header may include one of ours inside #if.

#include <causeway/config/config.hpp>
#include <causeway/config/version.hpp>
#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/scratch.hpp>
#include <causeway/tensor/shape.hpp>
#include <causeway/tensor/tensor.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/kernels/attention.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/cross_entropy.hpp>
#include <causeway/kernels/default_gemm.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/kernels/packed_gemm_portable.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/autograd/linear.hpp>
#include <causeway/autograd/ops.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/autograd/variable.hpp>
#include <causeway/policy/archetype.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/policy/pick.hpp>
#include <causeway/policy/rules.hpp>
#include <causeway/policy/traits.hpp>
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/train/context.hpp>
#include <causeway/train/model.hpp>
#include <causeway/train/observer.hpp>
#include <causeway/train/trainer.hpp>

#if __has_include(<asio.hpp>) && !defined(CAUSEWAY_NO_ASIO) && !defined(__CUDACC__)
#include <causeway/net/asio_library.hpp>
#endif

#endif  // CAUSEWAY_CAUSEWAY_HPP
