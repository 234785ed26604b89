// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_FIRST_DEVICE_HPP
#define CAUSEWAY_TESTS_CUDA_FIRST_DEVICE_HPP

// For tests that are about a device where there is one.

#include <causeway/core/error.hpp>
#include <causeway/cuda/engine.hpp>

#include <memory>
#include <utility>

#include "cuda/device_functions.hpp"
#include "support/catch.hpp"

namespace causeway_test {

/// The engine of the first device, or null where there is none, which is reported as it should be.
inline std::shared_ptr<causeway::cuda::engine> first_device() {
  auto engine = engine_of_device(0);
  if (engine) return std::move(engine).value();
  CHECK(engine.error().code == causeway::errc::unsupported);
  WARN("not compared: " << engine.error().text());
  return nullptr;
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_FIRST_DEVICE_HPP
