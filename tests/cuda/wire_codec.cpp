// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/wire_codec.hpp>

#include <causeway/compress/none.hpp>
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
  CHECK_FALSE(cuda::WireCodec<compress::none>);
  CHECK_FALSE(cuda::WireCodec<compress::top_k>);
}
