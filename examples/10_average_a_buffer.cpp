// SPDX-License-Identifier: Apache-2.0
// ctest:
// Collectives without a trainer: peers average a buffer of floats over TCP, as they are and in 8 bits.
//   10_average_a_buffer                     three peers, as threads of this process
//   10_average_a_buffer 0.0.0.0:29500 3     waits for two more; prints where it listens
//   10_average_a_buffer HOST:29500          joins
#include <causeway/collective/all_reduce.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/net/rendezvous.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace causeway;

// What any program does between computing and going on: `values` of all peers become their mean.
result<void> average(net::membership& peer) {
  auto& transport = peer.transport;
  std::vector<float> values(1'000'000, static_cast<float>(transport.self()));
  const float mean = static_cast<float>(transport.size() - 1) / 2;
  CAUSEWAY_TRY(collective::all_reduce_mean(transport, {.step = 1}, values));  // `step` keeps calls apart
  std::printf("peer %u of %u: mean %.2f, exactly %.2f\n", transport.self(), transport.size(), double{values[0]},
              double{mean});
  if (values[0] != mean) return fail(errc::corrupt, "average", "another mean than that of the peers' numbers");

  const auto sent = transport.stats().bytes_sent;
  const compress::block_int8 eight_bits;
  CAUSEWAY_TRY(collective::exchange_mean(transport, {.step = 2}, eight_bits, values));
  std::printf("peer %u: in 8 bits %.2f, for %.2f MB\n", transport.self(), double{values[0]},
              static_cast<double>(transport.stats().bytes_sent - sent) / 1e6);
  return std::abs(values[0] - mean) < 0.01F ? result<void>{} : fail(errc::corrupt, "average", "too far from the mean");
}

result<void> host(net::listener at, std::uint32_t peers) {
  CAUSEWAY_ASSIGN(auto peer, net::host(std::move(at), peers, {}, {.run_id = 1}));
  return average(peer);
}

result<void> join(const net::endpoint& there) {
  CAUSEWAY_ASSIGN(auto peer, net::join(there, {}));
  return average(peer);
}

result<void> three_here() {
  CAUSEWAY_ASSIGN(auto at, net::open_listener({"127.0.0.1", 0}));
  const net::endpoint there = at.address();
  std::vector<result<void>> outcomes(2);
  std::thread second{[&] { outcomes[0] = join(there); }}, third{[&] { outcomes[1] = join(there); }};
  auto outcome = host(std::move(at), 3);
  second.join();
  third.join();
  for (auto& other : outcomes) {
    if (outcome && !other) outcome = other;
  }
  return outcome;
}

result<void> run(int argc, char** argv) {
  if (argc < 2) return three_here();
  CAUSEWAY_ASSIGN(const auto address, net::parse_endpoint(argv[1]));
  if (argc < 3) return join(address);
  CAUSEWAY_ASSIGN(auto at, net::open_listener(address));
  std::printf("listening at %s\n", at.address().text().c_str());
  return host(std::move(at), static_cast<std::uint32_t>(std::atoi(argv[2])));
}

int main(int argc, char** argv) {
  const auto outcome = run(argc, argv);
  if (!outcome) std::puts(outcome.error().text().c_str());
  return outcome ? 0 : 1;
}
