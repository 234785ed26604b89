// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/openmp_guard.hpp>

#include "support/catch.hpp"

using causeway::kernels::detail::loaded_function;
using causeway::kernels::detail::one_openmp_thread;

TEST_CASE("openmp guard: finds what is loaded and nothing else", "[kernels][fast]") {
  CHECK(loaded_function<void* (*)(unsigned long)>("malloc") != nullptr);
  CHECK(loaded_function<void (*)()>("causeway_has_no_such_function") == nullptr);
}

TEST_CASE("openmp guard: one thread within the scope, what it was before after it", "[kernels][fast]") {
  const auto threads = loaded_function<int (*)()>("omp_get_max_threads");
  const int before = threads == nullptr ? 1 : threads();
  {
    const one_openmp_thread guard;
    CHECK((threads == nullptr ? 1 : threads()) == 1);
    const one_openmp_thread inner;
    CHECK((threads == nullptr ? 1 : threads()) == 1);
  }
  CHECK((threads == nullptr ? 1 : threads()) == before);
}
