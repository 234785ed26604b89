// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_stream.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <vector>

using namespace causeway;
using namespace causeway::net;

TEST_CASE("stream: chunk lengths follow the number of streams and stay within the limits", "[net][fast]") {
  CHECK(net::detail::chunk_for(0, 1) == std::size_t{1} << 20U);
  CHECK(net::detail::chunk_for(0, 16) == std::size_t{256} << 10U);
  CHECK(net::detail::chunk_for(1, 1) == min_chunk_bytes);
  CHECK(net::detail::chunk_for(SIZE_MAX, 1) == max_chunk_bytes);
  CHECK(net::detail::chunk_for(100'000, 4) == 100'000);
}

TEST_CASE("stream: a frame is written in whatever pieces the socket takes", "[net][fast]") {
  const std::vector<std::byte> body(100, std::byte{7});
  net::detail::outgoing_frame frame;
  const bool digest = GENERATE(false, true);
  frame.begin(frame_header{.message_length = body.size()}, body, digest);
  std::vector<std::byte> written;
  for (std::size_t piece = 1; frame.busy(); ++piece) {
    std::size_t left = piece;
    for (const auto& part : frame.buffers()) {
      const auto* from = static_cast<const std::byte*>(part.data());
      const std::size_t n = std::min(left, part.size());
      written.insert(written.end(), from, from + n);
      left -= n;
    }
    frame.consume(piece - left);
  }
  const auto header = decode_header(written);
  REQUIRE(header);
  CHECK(header->chunk_length == body.size());
  std::vector<std::byte> expected{written.begin(), written.begin() + header_bytes};
  if (digest) expected.resize(header_bytes + digest_bytes);
  if (digest) net::detail::store_little(expected.data() + header_bytes, hash_bytes(body));
  expected.insert(expected.end(), body.begin(), body.end());
  CHECK((written == expected));
}
