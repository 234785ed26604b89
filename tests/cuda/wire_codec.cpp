// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/wire_codec.hpp>

#include <causeway/compress/none.hpp>
#include <causeway/compress/sign.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/top_k.hpp>

#include "cuda/wire_case.hpp"
#include "support/catch.hpp"

#include <type_traits>

using namespace causeway;

TEST_CASE("cuda wire codec: keeps a codec with its options, and takes no other", "[cuda][fast]") {
  causeway_test::wire_case::for_codecs([](const auto& how) {
    using codec = std::remove_cvref_t<decltype(how)>;
    static_assert(cuda::WireCodec<codec>);
    const cuda::wire_codec kept{how};
    REQUIRE(std::holds_alternative<codec>(kept));
    CHECK(std::get<codec>(kept).encoded_size(1000) == how.encoded_size(1000));
  });
  CHECK(cuda::WireCodec<compress::none>);  // for the values of sparse messages
  CHECK_FALSE(cuda::WireCodec<compress::sign>);
  CHECK_FALSE(cuda::WireCodec<compress::top_k>);
}

TEST_CASE("cuda wire codec: a sparse codec is told in its parts, with their options", "[cuda][fast]") {
  using demo = compress::sparse<compress::dct_tiles, compress::top_k, compress::none>;
  static_assert(cuda::WireMessage<demo>);
  static_assert(!cuda::WireMessage<compress::none>);
  static_assert(!cuda::WireMessage<compress::sparse<compress::no_transform, compress::threshold, compress::none>>);
  static_assert(!cuda::WireMessage<compress::sparse<compress::no_transform, compress::top_k, compress::sign>>);
  const cuda::wire_message told = cuda::to_wire(demo{compress::dct_tiles{{.side = 16}}, compress::top_k{{.k = 3}}});
  REQUIRE(told.basis);
  CHECK(told.basis->chunks().side == 16);
  CHECK(std::get<compress::top_k>(told.choice).options().k == 3);
  CHECK(std::holds_alternative<compress::none>(told.quantiser));
  const compress::sparse<compress::no_transform, compress::shared_mask, compress::bf16> plain;
  CHECK_FALSE(cuda::to_wire(plain).basis);
}
