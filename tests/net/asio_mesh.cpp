// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_mesh.hpp>

#include "support/catch.hpp"
#include "support/tcp_peers.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace support;

namespace {

/// Two peers of a static list with options of their own; the outcome of both.
std::pair<result<membership>, result<membership>> connect_two(rendezvous_options first, rendezvous_options second) {
  std::atomic<bool> stop{false};
  first.stop = second.stop = &stop;
  auto a = open_listener({});
  auto b = open_listener({});
  const std::vector<endpoint> addresses{a->address(), b->address()};
  std::optional<result<membership>> waiting;
  std::thread side{[&] { waiting.emplace(connect_static(std::move(*a), 0, addresses, first)); }};
  auto dialling = connect_static(std::move(*b), 1, addresses, second);
  if (!dialling) stop = true;  // the first peer goes on waiting for a better one
  side.join();
  return {std::move(*waiting), std::move(dialling)};
}

frame_kind answer_to(const endpoint& at, const frame_header& h, const std::vector<std::byte>& body, error* why) {
  raw_peer stranger{at};
  stranger.write(h, body);
  std::vector<std::byte> answer;
  const auto said = stranger.read(&answer);
  REQUIRE(said);
  if (said->kind == frame_kind::refused) *why = net::detail::read_refusal("peer", answer);
  return said->kind;
}

}  // namespace

TEST_CASE("mesh: peers of one list connect, others are told why not", "[net][fast]") {
  const auto same = connect_two(test_options(), test_options());
  CHECK(same.first);
  CHECK(same.second);
  auto other = test_options();
  other.run_id = 78;
  const auto runs = connect_two(test_options(), other);
  CHECK_FALSE(runs.first);
  CHECK(runs.second.error().code == errc::wrong_run);
  auto model = test_options();
  model.model_hash = 1;
  other = test_options();
  other.model_hash = 2;
  const auto models = connect_two(model, other);
  CHECK(models.second.error().code == errc::wrong_model);
}

TEST_CASE("mesh: strange link requests are refused and the right one still gets in", "[net][fast]") {
  auto listening = open_listener({});
  const endpoint at = listening->address();
  std::optional<result<membership>> outcome;
  std::thread side{[&] { outcome.emplace(connect_static(std::move(*listening), 0, {at, endpoint{}}, test_options())); }};
  error why;
  auto [h, body] = link_request();
  h.sender = 0;  // in our own name
  CHECK(answer_to(at, h, body, &why) == frame_kind::refused);
  h.sender = 2;  // of a peer that does not exist
  CHECK(answer_to(at, h, body, &why) == frame_kind::refused);
  CHECK(why.code == errc::protocol);
  auto [many_header, many] = link_request(test_run, 0, 0, 1000);
  CHECK(answer_to(at, many_header, many, &why) == frame_kind::refused);
  CHECK(why.code == errc::invalid_argument);
  h.sender = 1;
  h.chunk_length = 3;
  CHECK(answer_to(at, h, pattern(3, 1), &why) == frame_kind::refused);
  h.kind = frame_kind::hello;
  CHECK(answer_to(at, h, pattern(3, 1), &why) == frame_kind::refused);
  CHECK(why.message.find("not the host of the run") != std::string::npos);
  auto [good_header, good] = link_request();
  CHECK(answer_to(at, good_header, good, &why) == frame_kind::link_ok);
  side.join();
  CHECK(*outcome);
}

TEST_CASE("mesh: whoever is missing at the deadline is named", "[net][fast]") {
  auto listening = open_listener({});
  const endpoint nobody = open_listener({})->address();
  auto options = test_options();
  options.deadline = steady_clock{}.now() + std::chrono::seconds{1};
  const auto outcome = connect_static(std::move(*listening), 1, {nobody, endpoint{}}, options);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::unreachable);
  CHECK(outcome.error().message.find("peer 0 (" + nobody.text() + ")") != std::string::npos);
}

TEST_CASE("mesh: many streams a link are dialled by the higher index alone", "[net][fast]") {
  auto options = test_options();
  options.streams_per_link = 16;
  auto peers = tcp_mesh(2, options);
  CHECK(peers[0].streams(1) == 16);
  CHECK(peers[1].streams(0) == 16);
}
