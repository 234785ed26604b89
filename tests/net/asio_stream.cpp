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
  frame.header = encode_header(frame_header{.kind = frame_kind::heartbeat});
  frame.header_left = header_bytes;
  frame.body = body.data();
  frame.body_left = body.size();
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
  std::vector<std::byte> expected{frame.header.begin(), frame.header.end()};
  expected.insert(expected.end(), body.begin(), body.end());
  CHECK((written == expected));
}
