// SPDX-License-Identifier: Apache-2.0
#include <causeway/kernels/gemm.hpp>

#include "support/catch.hpp"

#include <string>
#include <string_view>

using namespace causeway;
using namespace causeway::kernels;

namespace {

struct whole {
  static constexpr std::string_view name = "whole";
  template <class In, class Out>
  void multiply(thread_pool&, scratch&, const gemm_args<In, Out>&) {}
  [[nodiscard]] std::string describe() const { return "whole"; }
};

struct without_bf16 {
  [[maybe_unused]] static constexpr std::string_view name = "without bf16";
  void multiply(thread_pool&, scratch&, const gemm_args<float, float>&) {}
  [[nodiscard]] std::string describe() const { return "without bf16"; }
};

}  // namespace

static_assert(Gemm<whole>);
static_assert(!Gemm<without_bf16>);
static_assert(!Gemm<int>);

TEST_CASE("gemm: a residual that is C itself becomes accumulate", "[kernels][fast]") {
  float c[6] = {};
  gemm_args<float, float> args{.m = 2, .n = 3, .k = 1, .c = c, .ldc = 3, .residual = c, .ld_residual = 3};
  const auto folded = kernels::detail::checked(args);
  CHECK(folded.accumulate);
  CHECK(folded.residual == nullptr);

  float other[6] = {};
  args.residual = other;
  const auto kept = kernels::detail::checked(args);
  CHECK_FALSE(kept.accumulate);
  CHECK(kept.residual == other);
}
