// SPDX-License-Identifier: Apache-2.0
#include "tensorboard.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdio>

namespace app {
namespace {

// Castagnoli's polynomial, reflected.
constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1U) != 0 ? 0x82F63B78U ^ (c >> 1U) : c >> 1U;
    table[i] = c;
  }
  return table;
}

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = make_table();
  std::uint32_t c = 0xFFFFFFFFU;
  for (const char b : bytes) c = table[(c ^ static_cast<unsigned char>(b)) & 0xFFU] ^ (c >> 8U);
  return ~c;
}

std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8U; }

template <class T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t byte = 0; byte < sizeof value; ++byte) out += static_cast<char>((value >> (8 * byte)) & 0xFFU);
}

// ---- protocol buffers: a key is the field's number and how its value is written ------------------------------------

enum class wire : unsigned { varint = 0, eight_bytes = 1, counted = 2, four_bytes = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7FU) | 0x80U);
  out += static_cast<char>(value);
}

void put_key(std::string& out, unsigned field, wire type) { put_varint(out, field << 3U | static_cast<unsigned>(type)); }

void put_text(std::string& out, unsigned field, std::string_view text) {
  put_key(out, field, wire::counted);
  put_varint(out, text.size());
  out += text;
}

// An Event with its wall_time.
std::string event_at(double unix_seconds) {
  std::string event;
  put_key(event, 1, wire::eight_bytes);
  put_little_endian(event, std::bit_cast<std::uint64_t>(unix_seconds));
  return event;
}

}  // namespace

std::string tensorboard_record(std::string_view event) {
  std::string record;
  put_little_endian(record, std::uint64_t{event.size()});
  put_little_endian(record, masked(crc32c(record)));
  record += event;
  put_little_endian(record, masked(crc32c(event)));
  return record;
}

std::string tensorboard_version(double unix_seconds) {
  std::string event = event_at(unix_seconds);
  put_text(event, 3, "brain.Event:2");
  return event;
}

std::string tensorboard_scalar(double unix_seconds, std::uint64_t step, std::string_view tag, double value) {
  std::string scalar;  // Summary.Value
  put_text(scalar, 1, tag);
  put_key(scalar, 2, wire::four_bytes);
  put_little_endian(scalar, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  std::string summary;
  put_text(summary, 1, scalar);
  std::string event = event_at(unix_seconds);
  put_key(event, 2, wire::varint);
  put_varint(event, step);
  put_text(event, 5, summary);
  return event;
}

causeway::result<tensorboard_file> tensorboard_file::open(const std::string& folder, double unix_seconds) {
  char host[256] = "localhost";
  (void)gethostname(host, sizeof host - 1);
  char name[400];
  std::snprintf(name, sizeof name, "/events.out.tfevents.%010.0f.%s.%d", unix_seconds, host, static_cast<int>(getpid()));
  tensorboard_file opened;
  opened.file_.open(folder + name, std::ios::binary);
  opened.file_ << tensorboard_record(tensorboard_version(unix_seconds));
  opened.flush();
  if (opened.file_) return opened;
  return causeway::fail(causeway::errc::io_failed, folder + name,
                        "TensorBoard's event file cannot be written here; check the folder and the disk, or leave "
                        "--tensorboard out");
}

}  // namespace app
