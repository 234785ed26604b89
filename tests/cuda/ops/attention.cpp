// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/ops/attention.hpp>

#include "cuda/attention_case.hpp"
#include "support/catch.hpp"

namespace {

using namespace causeway;
using causeway_test::attention_case;
using causeway_test::relative_distance;

/// False where there is no device.
template <class Act>
bool compare(const causeway_test::attention_size& size, double tolerance) {
  CAPTURE(size.batch, size.T, size.heads, size.kv_heads, size.head_size);
  attention_case<float> exact{size};
  exact.forward_on_cpu();
  exact.backward_on_cpu();
  attention_case<Act> got{size}, again{size};
  const auto ran = causeway_test::attention_on_device(got.shape, got);
  if (!ran) {
    CHECK(ran.error().code == errc::unsupported);
    WARN("not compared: " << ran.error().text());
    return false;
  }
  CHECK(relative_distance(got.o, exact.o) < tolerance);
  CHECK(relative_distance(got.logsumexp, exact.logsumexp) < 2e-5);
  CHECK(relative_distance(got.d_qkv, exact.d_qkv) < tolerance);
  REQUIRE(causeway_test::attention_on_device(again.shape, again));
  CHECK(causeway_test::differing(again.o, got.o) == 0);
  CHECK(causeway_test::differing(again.d_qkv, got.d_qkv) == 0);
  return true;
}

}  // namespace

TEST_CASE("cuda attention: the device has the CPU's results, and the same bits again", "[cuda][gpu][fast]") {
  for (const std::int64_t T : {1, 17, 64, 130, 511}) {
    if (!compare<bf16>({2, T, 4, 2, 64}, 1e-2)) return;
    compare<bf16>({1, T, 3, 1, 128}, 1e-2);
    compare<float>({2, T, 4, 2, 64}, 2e-5);
    compare<float>({1, T, 3, 3, 20}, 2e-5);
  }
}

TEST_CASE("cuda attention: what the device cannot take is said", "[cuda][fast]") {
  CHECK(causeway_test::check_attention_arguments(64, 192));
  CHECK(causeway_test::check_attention_arguments(128, 3 * 128));
  CHECK(causeway_test::check_attention_arguments(80, 240).error().code == errc::unsupported);
  CHECK(causeway_test::check_attention_arguments(64, 193).error().code == errc::invalid_argument);
}
