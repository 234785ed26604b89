// SPDX-License-Identifier: Apache-2.0
#include <causeway/tensor/tensor.hpp>

#include <utility>

#include "support/catch.hpp"

namespace causeway {

TEST_CASE("tensor: copies share numbers, the last one gives the memory back", "[tensor][fast]") {
  buffer_pool pool;
  tensor a = tensor::make(pool, dtype::f32, {2, 3});
  CHECK(a.unique());
  a.data<float>()[5] = 4.0F;
  tensor b = a;
  CHECK_FALSE(a.unique());
  CHECK(b.data<float>()[5] == 4.0F);
  a.reset();
  CHECK_FALSE(a);
  CHECK(b.unique());
  b.reset();
  CHECK(pool.in_use() == 0);
}

TEST_CASE("tensor: a moved-from handle is empty", "[tensor][fast]") {
  buffer_pool pool;
  tensor a = tensor::make(pool, dtype::bf16, {4});
  const tensor b = std::move(a);
  CHECK_FALSE(a);  // NOLINT: moved from on purpose
  CHECK(b);
  CHECK(b.bytes() == 8);
  CHECK(b.unique());
}

TEST_CASE("tensor: assignment releases what the handle held", "[tensor][fast]") {
  buffer_pool pool;
  tensor a = tensor::make(pool, dtype::f32, {1000});
  a = tensor::make(pool, dtype::f32, {10});
  CHECK(pool.in_use() == buffer_pool::rounded(40));
}

TEST_CASE("tensor: a view owns nothing and may never be overwritten in passing", "[tensor][fast]") {
  float numbers[6] = {0, 1, 2, 3, 4, 5};
  const tensor v = tensor::borrow(numbers, {2, 3});
  CHECK_FALSE(v.unique());
  CHECK(v.data<float>() == numbers);
  CHECK(v.rows() == 2);
  CHECK(v.reshaped({3, 2}).columns() == 2);
  CHECK(v.span<float>().size() == 6);
}

}  // namespace causeway
