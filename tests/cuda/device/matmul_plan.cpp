// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/device/matmul_plan.hpp>

#include "cuda/body_support.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <vector>

namespace {

using namespace causeway;
using namespace causeway::cuda;

/// What a library does that stores columns one after another.
std::vector<double> multiply_by_columns(const column_product& p, const std::vector<float>& first,
                                        const std::vector<float>& second, std::size_t size) {
  std::vector<double> out(size);
  const auto at = [](const std::vector<float>& x, const column_layout& l, bool transposed, std::int64_t r, std::int64_t c) {
    if (transposed) std::swap(r, c);
    REQUIRE((r < l.rows && c < l.columns));
    return static_cast<double>(x[static_cast<std::size_t>(c * l.stride + r)]);
  };
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (std::int64_t c = 0; c < p.columns; ++c) {
      double sum = 0;
      for (std::int64_t d = 0; d < p.depth; ++d) {
        sum += at(first, p.first, p.transpose_first, r, d) * at(second, p.second, p.transpose_second, d, c);
      }
      out[static_cast<std::size_t>(c * p.result.stride + r)] = sum;
    }
  }
  return out;
}

std::vector<double> multiply_by_rows(const matmul_key& key, const std::vector<float>& a, const std::vector<float>& b,
                                     std::size_t size) {
  std::vector<double> out(size);
  for (std::int64_t i = 0; i < key.m; ++i) {
    for (std::int64_t j = 0; j < key.n; ++j) {
      double sum = 0;
      for (std::int64_t d = 0; d < key.k; ++d) {
        const float x = a[static_cast<std::size_t>(key.transpose_a ? d * key.lda + i : i * key.lda + d)];
        const float y = b[static_cast<std::size_t>(key.transpose_b ? j * key.ldb + d : d * key.ldb + j)];
        sum += static_cast<double>(x) * static_cast<double>(y);
      }
      out[static_cast<std::size_t>(i * key.ldc + j)] = sum;
    }
  }
  return out;
}

matmul_key sound() {
  matmul_key key{4, 6, 8, 8, 6, 6};
  key.in = key.out = dtype::bf16;
  return key;
}

}  // namespace

TEST_CASE("cuda matmul: a product by rows is the one by columns that it is turned into", "[cuda][fast]") {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      matmul_key key{3, 5, 7};
      key.transpose_a = transpose_a, key.transpose_b = transpose_b;
      key.lda = (transpose_a ? key.m : key.k) + 2, key.ldb = (transpose_b ? key.k : key.n) + 1, key.ldc = key.n + 3;
      REQUIRE(validate(key));
      const auto a = causeway_test::numbers(10 * key.lda, 1), b = causeway_test::numbers(10 * key.ldb, 2);
      const auto size = static_cast<std::size_t>(key.m * key.ldc);
      CHECK(multiply_by_columns(by_columns(key), b, a, size) == multiply_by_rows(key, a, b, size));
    }
  }
}

TEST_CASE("cuda matmul: a plan is made once for each key, and whatever can change the choice is in it", "[cuda][fast]") {
  plan_cache<int> cache;
  int made = 0;
  const auto plan_of = [&](const matmul_key& key) {
    const auto plan = cache.find_or_make(key, [&](const matmul_key&) -> result<int> { return ++made; });
    REQUIRE(plan);
    return *plan.value();
  };
  const auto other = [](auto&& change) {
    matmul_key key = sound();
    change(key);
    return key;
  };
  const std::vector<matmul_key> keys{sound(),
                                     other([](matmul_key& k) { k.m = 5; }),
                                     other([](matmul_key& k) { k.n = 5; }),
                                     other([](matmul_key& k) { k.k = 7; }),
                                     other([](matmul_key& k) { k.lda = 16; }),
                                     other([](matmul_key& k) { k.ldb = 16; }),
                                     other([](matmul_key& k) { k.ldc = 16; }),
                                     other([](matmul_key& k) { k.transpose_a = true; }),
                                     other([](matmul_key& k) { k.transpose_b = true, k.ldb = 8; }),
                                     other([](matmul_key& k) { k.accumulate = true; }),
                                     other([](matmul_key& k) { k.tf32 = true; }),
                                     other([](matmul_key& k) { k.out = dtype::f32; }),
                                     other([](matmul_key& k) { k.epilogue = matmul_epilogue::bias; }),
                                     other([](matmul_key& k) { k.alignment = 2; })};
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < keys.size(); ++i) CHECK(plan_of(keys[i]) == static_cast<int>(i) + 1);
  }
  CHECK(cache.size() == keys.size());
}

TEST_CASE("cuda matmul: a failure to plan is reported and tried again", "[cuda][fast]") {
  plan_cache<int> cache;
  const auto refused =
      cache.find_or_make(sound(), [](const matmul_key&) -> result<int> { return fail(errc::unsupported, "plan", "no"); });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported);
  CHECK(cache.find_or_make(sound(), [](const matmul_key&) -> result<int> { return 1; }));
}

TEST_CASE("cuda matmul: products that cannot be are refused", "[cuda][fast]") {
  const auto refuses = [](auto&& change) {
    matmul_key key = sound();
    change(key);
    const auto outcome = validate(key);
    return !outcome && outcome.error().code == errc::invalid_argument;
  };
  CHECK(validate(sound()));
  CHECK(refuses([](matmul_key& k) { k.m = 0; }));
  CHECK(refuses([](matmul_key& k) { k.lda = 7; }));
  CHECK(refuses([](matmul_key& k) { k.transpose_b = true; }));
  CHECK(refuses([](matmul_key& k) { k.ldc = 5; }));
  CHECK(refuses([](matmul_key& k) { k.in = dtype::f32; }));
  CHECK(refuses([](matmul_key& k) { k.in = dtype::i8; }));
  CHECK(refuses([](matmul_key& k) { k.epilogue = matmul_epilogue::bias_gelu, k.ld_matrix = 6; }));
  CHECK(refuses([](matmul_key& k) { k.epilogue = matmul_epilogue::gelu_gradient, k.ld_matrix = 8, k.accumulate = true; }));
}

TEST_CASE("cuda matmul: the alignment of pointers is that of the worst", "[cuda][fast]") {
  alignas(32) char memory[64] = {};
  CHECK(common_alignment(memory, memory + 32) == 16);
  CHECK(common_alignment(memory, memory + 8) == 8);
  CHECK(common_alignment(memory + 4, memory + 2, memory) == 2);
  CHECK(common_alignment(memory, static_cast<char*>(nullptr)) == 16);
}
