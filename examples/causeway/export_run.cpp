// SPDX-License-Identifier: Apache-2.0
#include "export_run.hpp"

#include <causeway/formats/tokenizer_json.hpp>
#include <causeway/io/file.hpp>

#include <cstdio>
#include <string>

#include "run_model.hpp"

namespace app {
namespace {

namespace formats = causeway::formats;
namespace io = causeway::io;

// False, with a word about it, where the format cannot hold the tokenizer.
causeway::result<bool> write_tokenizer(const text_codec& codec, std::int64_t context, const std::string& folder) {
  const auto merges = codec.merges();
  const auto text = formats::tokenizer_text(merges);
  if (!text) {
    std::fprintf(stderr, "without a tokenizer: %s\n", text.error().text().c_str());
    return false;
  }
  io::posix_storage storage;
  CAUSEWAY_TRY(storage.write_atomic(folder + "/tokenizer.json", io::produce(*text)));
  const std::string config = formats::tokenizer_config_text(merges, context);
  CAUSEWAY_TRY(storage.write_atomic(folder + "/tokenizer_config.json", io::produce(config)));
  return true;
}

formats::element type_of(const settings& s) {
  if (s.out.type == "bf16") return formats::element::bf16;
  return s.out.type == "f16" ? formats::element::f16 : formats::element::f32;
}

}  // namespace

causeway::result<int> export_run(const settings& s, text_codec& codec, const std::string& folder) {
  CAUSEWAY_ASSIGN(chosen_model model, trained_model(s, codec));
  const formats::save_options options{.type = type_of(s), .end_of_text = codec.merges().end_of_text()};
  CAUSEWAY_TRY(model.save(folder, options));
  CAUSEWAY_ASSIGN(const bool tokenizer, write_tokenizer(codec, model.context_length(), folder));
  std::printf("%s: model.safetensors (%lld parameters, %s), config.json%s\n", folder.c_str(),
              static_cast<long long>(model.parameters().count()), std::string{name_of(options.type)}.c_str(),
              tokenizer ? ", tokenizer.json, tokenizer_config.json" : "");
  return 0;
}

}  // namespace app
