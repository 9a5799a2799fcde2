"""What a person sees of a calibration: figures now, the report page later."""
