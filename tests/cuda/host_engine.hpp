// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_HOST_ENGINE_HPP
#define CAUSEWAY_TESTS_CUDA_HOST_ENGINE_HPP

// An engine over a queue of the host (host_queue.hpp), compiled once for all tests that need no more of it.

#include <causeway/cuda/engine.hpp>

#include "cuda/migrating_pages.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace causeway_test {

struct queue_report {
  std::size_t reserved = 0;  ///< pieces that are lent to buffers
  std::size_t waits = 0;
  std::size_t fetched = 0;         ///< bytes
  std::size_t out = 0, in = 0;     ///< bytes that were copied to and from the host
  std::size_t most_under_way = 0;  ///< copies to the host
  std::int64_t fail_at = -1;       ///< the operation that fails, counted from now; -1: none
  bool gelu_in_products = true;    ///< there are epilogues for it
  bool migrates = false;           ///< buffers lie in `pages`; set it before the first is made
  migrating_pages pages;
};

/// The report tells what the queue did, and the queue what to do.
std::shared_ptr<causeway::cuda::engine> engine_on_host(std::shared_ptr<queue_report> report = {});

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_HOST_ENGINE_HPP
