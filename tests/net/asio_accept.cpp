// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_accept.hpp>

#include <causeway/net/asio_listener.hpp>

#include "support/catch.hpp"
#include "support/few_descriptors.hpp"
#include "support/tcp_peers.hpp"

#include <memory>
#include <new>
#include <string>
#include <utility>

using namespace support;

TEST_CASE("accepting: without descriptors it pauses, says so, and goes on when there are some", "[net][fast]") {
  auto from = open_listener({});
  const endpoint at = from->address();
  asio::io_context& io = *from->port->io;
  int taken = 0;
  int failed = 0;
  const auto door = std::make_shared<net::detail::accepting>(
      io, std::move(from->port->acceptor), [&](net::detail::tcp::socket) { ++taken; },
      [&](const std::string&) { ++failed; });
  door->start();
  const raw_peer waits{at};
  {
    const few_descriptors none{0};
    while (failed == 0) io.run_one();
    CHECK(io.poll() == 0);  // it does not ask again at once
    while (failed < 3) io.run_one();
    CHECK(taken == 0);
  }
  while (taken == 0) io.run_one();
  door->stop();
  io.poll();
}

TEST_CASE("accepting: a connection that there is no memory for is dropped, the next one is not", "[net][fast]") {
  auto from = open_listener({});
  const endpoint at = from->address();
  asio::io_context& io = *from->port->io;
  int asked = 0;
  const auto door = std::make_shared<net::detail::accepting>(
      io, std::move(from->port->acceptor),
      [&](net::detail::tcp::socket) {
        if (++asked == 1) throw std::bad_alloc{};
      },
      [](const std::string&) {});
  door->start();
  raw_peer first{at};
  const raw_peer second{at};
  while (asked < 2) io.run_one();
  first.read_to_end();
  door->stop();
  io.poll();
}
